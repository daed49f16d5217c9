package main

import (
	"bytes"
	"sync"
)

// greeting is what a running process has printed so far.
type greeting struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (g *greeting) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.Write(p)
}

func (g *greeting) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.buf.String()
}
