package serve_test

import (
	"context"
	"runtime"
	"testing"
	"time"
)

// So many calls read or write files at once and no more; one that waits goes on when
// another has ended, or when its client is gone. The twin: other tools never wait.
func TestFilesHaveTurns(t *testing.T) {
	s := start(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var leave []func()
	for i := range max(16, 2*runtime.GOMAXPROCS(0)) {
		leave = append(leave, s.Turn([]string{"read_file", "write_file", "edit_file"}[i%3], ctx))
	}
	for _, end := range []func(){leave[0], cancel} {
		begun := make(chan bool)
		go func() { s.Turn("read_file", ctx); close(begun) }()
		select {
		case <-begun:
			t.Error("one more did not wait")
		case <-time.After(50 * time.Millisecond):
		}
		s.Turn("run_command", ctx)()
		end()
		<-begun
	}
}
