// Package callaudit writes one line for each call of a tool.
package callaudit

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Record is one line of the audit file: one call of a tool and what came of
// it. It never holds an argument or a result.
type Record struct {
	Time        time.Time `json:"time"`
	Principal   string    `json:"principal"`
	Session     string    `json:"session,omitempty"` // none in the stateless protocol
	Server      string    `json:"server,omitempty"`  // the hub's
	Tool        string    `json:"tool"`
	Verdict     string    `json:"verdict"` // ok, error, refused, ask, canceled or panic
	DurationMS  int64     `json:"duration_ms"`
	InputBytes  int       `json:"input_bytes"`  // of the arguments, as JSON
	ResultBytes int       `json:"result_bytes"` // of the result's text
}

// Audit writes records. Its zero value, and nil, write nothing.
type Audit struct {
	mu     sync.Mutex
	w      io.Writer
	broken error // what the last write failed with
}

// Open opens the file that path names for appending, made with mode 0600;
// "-" is stdout and "" is none.
func Open(path string, stdout io.Writer) (*Audit, error) {
	if path == "" {
		return &Audit{}, nil
	}
	if path == "-" {
		return New(stdout), nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit file: %w", err)
	}
	return New(f), nil
}

// New writes records to w.
func New(w io.Writer) *Audit { return &Audit{w: w} }

// Write appends one record in one write.
func (a *Audit) Write(r Record) error {
	if a == nil || a.w == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("audit record: %w", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, a.broken = a.w.Write(append(line, '\n'))
	return a.broken
}

// Ready reports why a call must not run now: the last record could not be
// written. A blank line is tried, so that the file may recover.
func (a *Audit) Ready() error {
	if a == nil || a.w == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken != nil {
		_, a.broken = a.w.Write([]byte("\n"))
	}
	return a.broken
}

// Close closes the audit file.
func (a *Audit) Close() error {
	if f, ok := a.w.(*os.File); ok && f != os.Stdout {
		return f.Close()
	}
	return nil
}
