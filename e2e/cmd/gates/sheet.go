package main

import (
	"bytes"
	"fmt"
	"os"
	"sync"
)

// sheet is what one gate says. Gates that run side by side are read one after the
// other: what a later one says is kept until its turn.
type sheet struct {
	failures []string // what failed and why, to be said again at the end
	slow     []timing // of each test that ended

	mu   sync.Mutex
	kept bytes.Buffer
	live bool
}

// Write implements io.Writer.
func (s *sheet) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live {
		return os.Stdout.Write(p)
	}
	return s.kept.Write(p)
}

// show begins the gate's turn.
func (s *sheet) show() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = true
	os.Stdout.Write(s.kept.Bytes())
	s.kept.Reset()
}

func (s *sheet) say(format string, values ...any) { fmt.Fprintf(s, format, values...) }

// failed notes what could not even be tried.
func (s *sheet) failed(name string, err error) count {
	s.say("%s: %v\n", name, err)
	s.failures = append(s.failures, name)
	return count{failed: 1}
}
