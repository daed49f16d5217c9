package tool

import (
	"fmt"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/command"
)

// state is how a command stands, in the words that all command tools share.
type state struct {
	Running    bool   `json:"running" jsonschema:"whether it still runs in the background"`
	ExitCode   int    `json:"exit_code" jsonschema:"-1 when there is none: ended by a signal, or still running"`
	Signal     string `json:"signal" jsonschema:"the signal that ended it, such as SIGKILL, or empty"`
	TimedOut   bool   `json:"timed_out"`
	OOMKilled  *bool  `json:"oom_killed" jsonschema:"whether the kernel ended it as memory ran out; null if not known"`
	DurationMS int64  `json:"duration_ms"`
	metLimit   bool   // the jail saw all processes used up
}

// line is the state as text.
func (s state) line() string {
	switch {
	case s.Running:
		return fmt.Sprintf("running for %d ms", s.DurationMS)
	case s.TimedOut:
		return fmt.Sprintf("timed out after %d ms", s.DurationMS)
	case s.Signal != "":
		return fmt.Sprintf("ended by %s after %d ms", s.Signal, s.DurationMS)
	}
	return fmt.Sprintf("exit_code %d after %d ms", s.ExitCode, s.DurationMS)
}

// stateOf notes what belongs to a command's end beside its numbers.
func (s *Set) stateOf(c *command.Command, out *common) state {
	r, ended := c.Result() // first: of an ended command all that follows is there
	for _, line := range c.Notices {
		out.note("%s", line)
	}
	if line := c.Room(); line != "" {
		out.note("%s", line)
	}
	for _, line := range c.Refused() {
		out.note("%s", line)
	}
	if c.OwnerStopped() {
		out.note("The owner stopped this command, and what it had started. Do not start it again by yourself; ask " +
			"the user.")
	}
	switch {
	case !ended:
		return state{Running: true, ExitCode: -1, DurationMS: time.Since(c.Started).Milliseconds()}
	case r.TimedOut:
		out.note("The command ran out of time; it and everything it started were ended.")
	case r.OOMKilled != nil && *r.OOMKilled:
		out.note("The kernel ended the command, or a part of it, because memory ran out.")
	}
	if r.OutputHeld {
		out.note("Something still held the output open after the command's end; the output may be incomplete.")
	}
	if r.Starved {
		out.note("The command was ended because commands had used up the account's epoll watches, which the server " +
			"needs too.")
	}
	if r.Unkillable {
		out.note("Something that was killed hangs in the kernel and is not gone yet.")
	}
	if r.Signal != "" || r.TimedOut || r.Canceled {
		s.noteLocks(out, c.Started)
	}
	return state{ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, OOMKilled: r.OOMKilled,
		DurationMS: r.Duration.Milliseconds(), metLimit: r.MetLimit}
}

// noteLocks names the lock files that a command which was ended may have left:
// the program that finds one refuses to work, for the owner too.
func (s *Set) noteLocks(out *common, since time.Time) {
	if names := s.files.Locks(since); len(names) > 0 {
		out.note("Lock files were left behind: %s. If nothing uses them any more, remove them.",
			strings.Join(names, ", "))
	}
}
