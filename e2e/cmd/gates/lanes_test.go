package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// Gates that allow it run side by side, in as many lanes as there are, and are read
// one after the other; one that does not allow it waits for all before it.
func TestLanes(t *testing.T) {
	for _, lanes := range []int{1, 2} {
		second, over := make(chan struct{}), atomic.Int32{}
		gates := []gate{
			{name: "a", run: func(s *sheet) count {
				if lanes == 2 {
					<-second
				}
				s.say("of a\n")
				over.Add(1)
				return count{passed: 1}
			}},
			{name: "b", beside: true, run: func(s *sheet) count {
				if lanes == 1 && over.Load() != 1 {
					t.Error("b began before a had ended, in one lane")
				}
				s.say("of b\n")
				close(second)
				over.Add(1)
				return s.failed("b", os.ErrInvalid)
			}},
			{name: "c", run: func(s *sheet) count {
				if over.Load() != 2 {
					t.Error("c did not wait")
				}
				return count{skipped: 1}
			}},
		}
		sum, sheets := count{}, []*sheet{}
		out := stdout(t, func() { sum, sheets = runAll(gates, lanes) })
		if (sum != count{1, 1, 1}) || len(sheets) != 3 || len(sheets[1].failures) != 1 {
			t.Errorf("%d lanes: %v", lanes, sum)
		}
		at := 0
		for _, line := range []string{"=== gate a", "of a", "--- gate a", "=== gate b", "of b", "--- gate b", "=== gate c", "--- gate c"} {
			i := strings.Index(out[at:], line)
			if i < 0 {
				t.Fatalf("%d lanes: %q is not in its place:\n%s", lanes, line, out)
			}
			at += i
		}
	}
}

// stdout is what do prints.
func stdout(t *testing.T, do func()) string {
	file := filepath.Join(t.TempDir(), "out")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	usual := os.Stdout
	os.Stdout = f
	do()
	os.Stdout = usual
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
