package upstream

import (
	"io"
	"time"
)

// HastenCancel shortens what a server gets to end a canceled request.
func HastenCancel(d time.Duration) (undo func()) {
	old := cancelGrace
	cancelGrace = d
	return func() { cancelGrace = old }
}

// Crowd takes room as unfinished messages of others do, until it is given back.
func Crowd(bytes int64) (give func()) {
	unfinished.Add(bytes)
	return func() { unfinished.Add(-bytes) }
}

// Unfinished is how much is taken.
func Unfinished() int64 { return unfinished.Load() }

// LogLines is the writer of a server's stderr.
func LogLines(log func(string)) io.WriteCloser { return logLines(log) }
