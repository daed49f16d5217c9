package jail

import (
	"testing"
	"time"
)

// late takes what is written to it when the bound has passed.
type late struct{ bytes int }

func (l *late) Write(p []byte) (int, error) {
	if l.bytes == 0 {
		time.Sleep(drainBound + 100*time.Millisecond)
	}
	l.bytes += len(p)
	return len(p), nil
}

// What a command wrote is there whole, however late this program comes to read it, and
// nobody is said to hold it open. The twin: somebody does.
func TestDrainLosesNothing(t *testing.T) {
	for _, held := range []bool{false, true} {
		var o output
		var l late
		end, err := o.pipe(&l)
		if err != nil {
			t.Fatal(err)
		}
		defer end.Close()
		const wrote = 60_000 // more than is read at once
		if n, err := end.Write(make([]byte, wrote)); n != wrote || err != nil {
			t.Fatal(n, err)
		}
		if !held {
			end.Close()
		}
		if got := o.drain(); got != held || l.bytes != wrote {
			t.Errorf("held %t: drain says %t, %d of %d bytes", held, got, l.bytes, wrote)
		}
	}
}
