package upstream_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/upstream"
)

// What a server writes to stderr without end fills no disk: the log has a bounded
// number of lines a second, says how many were left out, and the server waits. A usual
// number is there whole.
func TestStderrIsBounded(t *testing.T) {
	lines := make(chan string, 10_000)
	w := upstream.LogLines(func(line string) { lines <- line })
	for n := range upstream.MaxLogged {
		fmt.Fprintf(w, "usual %d\n", n)
	}
	for n := range upstream.MaxLogged {
		if got := <-lines; got != fmt.Sprintf("usual %d", n) {
			t.Fatalf("twin: line %d is %q", n, got)
		}
	}
	begin := time.Now()
	for range 10 {
		if _, err := io.WriteString(w, strings.Repeat(strings.Repeat("x", 100)+"\n", 500)); err != nil {
			t.Fatal(err)
		}
	}
	seconds := int(time.Since(begin)/time.Second) + 1
	fmt.Fprintln(w, "end")
	if got := len(lines); got > (seconds+1)*(upstream.MaxLogged+1) {
		t.Errorf("%d lines were logged in %d s", got, seconds)
	}
	held := time.Now() // what a pipe holds, were it empty lines, delays no end for long
	if _, err := io.WriteString(w, strings.Repeat("\n", 64<<10)); err != nil || time.Since(held) > 20*time.Second {
		t.Errorf("64 KiB of lines take %v, %v", time.Since(held), err)
	}
	time.Sleep(time.Second)
	fmt.Fprintln(w, "end")
	omitted := false
	for end := time.After(20 * time.Second); !omitted; {
		select {
		case line := <-lines:
			omitted = strings.Contains(line, "lines left out")
		case <-end:
			t.Fatal("nothing says that lines were left out")
		}
	}
	w.Close()
}
