package tool_test

import (
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// However many searches come at once, few of them hold their file in memory, and all
// are answered. (The twin is one that holds each: 40 files are 320 MiB.)
func TestManySearchesAtOnce(t *testing.T) {
	b := newBox(t)
	b.put("large", strings.Repeat(strings.Repeat("a", 99)+"\n", 83_000))
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	var all sync.WaitGroup
	const searches = 40
	var answered atomic.Int32
	for range searches {
		all.Go(func() {
			res := b.raw("search_files", args{"pattern": "a0c"})
			for res.IsError && strings.Contains(text(res), "try again when") { // a busy machine
				res = b.raw("search_files", args{"pattern": "a0c"})
			}
			var got searchResult
			if decode(t, res, &got); got.FilesSearched == 1 {
				answered.Add(1)
			}
		})
	}
	done := make(chan bool)
	go func() { all.Wait(); close(done) }()
	most := uint64(0)
	for over := false; !over; {
		metrics.Read(live)
		most = max(most, live[0].Value.Uint64())
		select {
		case <-done:
			over = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	if n := answered.Load(); n != searches {
		t.Errorf("%d of %d searches were answered", n, searches)
	}
	if t.Logf("at most %d MiB", most>>20); most > 256<<20 {
		t.Error("too many files are held at once")
	}
}
