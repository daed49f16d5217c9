package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/egress/proxy"
)

// record writes one JSON line per begin, end and refusal.
type record struct {
	mu   sync.Mutex
	w    io.Writer // nil records nothing
	file *os.File
	last uint64
}

func openAudit(path string, stdout io.Writer) (*record, error) {
	switch path {
	case "":
		return &record{}, nil
	case "-":
		return &record{w: stdout}, nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit file: %w", err)
	}
	return &record{w: f, file: f}, nil
}

func (r *record) recorder() proxy.Recorder {
	if r.w == nil {
		return nil
	}
	return r
}

// Close closes the file.
func (r *record) Close() error { return r.file.Close() }

// Begin implements proxy.Recorder.
func (r *record) Begin(c proxy.Connection) (uint64, error) { return r.write("begin", 0, c) }

// End implements proxy.Recorder.
func (r *record) End(id uint64, c proxy.Connection) error {
	_, err := r.write("end", id, c)
	return err
}

// Refused implements proxy.Recorder.
func (r *record) Refused(c proxy.Connection) error {
	_, err := r.write("refused", 0, c)
	return err
}

func (r *record) write(kind string, begin uint64, c proxy.Connection) (uint64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	line, err := json.Marshal(map[string]any{
		"seq": r.last, "kind": kind, "begin": begin, "time": time.Now().UTC(), "principal": c.Command.Principal, "session": c.Command.Session,
		"command": c.Command.ID, "target": c.Target.String(), "clear": c.Target.Clear, "asked": c.Asked, "address": c.Address, "verdict": c.Verdict,
		"sent": c.Sent, "received": c.Received, "ms": c.Duration.Milliseconds(), "more": c.More,
	})
	if err == nil {
		_, err = r.w.Write(append(line, '\n'))
	}
	return r.last, err
}
