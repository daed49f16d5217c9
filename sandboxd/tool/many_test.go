package tool_test

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// However many searches come at once, few of them hold their file in memory, and all
// are answered. Those at work are counted by their stacks: the heap also has what is
// garbage already.
func TestManySearchesAtOnce(t *testing.T) {
	b := newBox(t)
	slow := args{"pattern": "(a?){30}b"}
	for lines, took := 50, time.Duration(0); took < 50*time.Millisecond; lines *= 2 {
		b.put("slow", strings.Repeat(strings.Repeat("a", 99)+"\n", lines))
		begun := time.Now()
		b.raw("search_files", slow)
		took = time.Since(begun)
	}
	var all sync.WaitGroup
	const searches, share = 30, 8
	var answered atomic.Int32
	for range searches {
		all.Go(func() {
			res := b.raw("search_files", slow)
			for res.IsError && strings.Contains(text(res), "try again when") { // a busy machine
				res = b.raw("search_files", slow)
			}
			var got searchResult
			if decode(t, res, &got); got.FilesSearched == 1 {
				answered.Add(1)
			}
		})
	}
	done := make(chan bool)
	go func() { all.Wait(); close(done) }()
	stacks, most := make([]byte, 16<<20), 0
	for over := false; !over; {
		n := runtime.Stack(stacks, true)
		most = max(most, bytes.Count(stacks[:n], []byte("/files.(*Workspace).Search(")))
		select {
		case <-done:
			over = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if n := answered.Load(); n != searches {
		t.Errorf("%d of %d searches were answered", n, searches)
	}
	if t.Logf("%d at once", most); most < 1 || most > share {
		t.Errorf("%d searches were at work at once, want 1 to %d", most, share)
	}
}
