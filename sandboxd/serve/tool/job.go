package tool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/capture"
	"github.com/sallyport-dev/sallyport/sandboxd/jail"
)

// job is one started command and what it has written so far.
type job struct {
	command       string
	handle, owner string // of a background command
	proc          *jail.Process
	out, errout   *capture.Buffer
	started       time.Time
	done          chan struct{} // closed once result is set
	result        jail.Result
}

// launch starts command in workdir for at most limit. When ctx or the Set ends,
// so does everything that the command started.
func (s *Set) launch(ctx context.Context, command, workdir string, limit time.Duration) (*job, error) {
	if err := checkCommand(command); err != nil {
		return nil, err
	}
	dir, err := s.files.Dir(workdir)
	if err != nil {
		return nil, fmt.Errorf("workdir: %w", err)
	}
	defer dir.Close()
	s.privateDirs()
	j := &job{
		command: command,
		out:     capture.New(s.cfg.OutputLimit),
		errout:  capture.New(s.cfg.OutputLimit),
		started: time.Now(),
		done:    make(chan struct{}),
	}
	j.proc, err = s.cfg.Jail.Start(ctx, jail.Command{
		Args: shell(command), Env: s.environment(), Dir: dir,
		Stdout: j.out, Stderr: j.errout, Timeout: limit,
	})
	if err != nil {
		return nil, fmt.Errorf("the command could not be started: %w", err)
	}
	forget := context.AfterFunc(s.ctx, j.proc.Kill)
	go func() {
		j.result = j.proc.Wait()
		forget()
		close(j.done)
	}()
	return j, nil
}

func (j *job) running() bool {
	select {
	case <-j.done:
		return false
	default:
		return true
	}
}

// state is how a command stands, in the words that all command tools share.
type state struct {
	Running    bool   `json:"running" jsonschema:"whether it still runs in the background"`
	ExitCode   int    `json:"exit_code" jsonschema:"-1 when there is none: ended by a signal, or still running"`
	Signal     string `json:"signal" jsonschema:"the signal that ended it, such as SIGKILL, or empty"`
	TimedOut   bool   `json:"timed_out"`
	OOMKilled  *bool  `json:"oom_killed" jsonschema:"whether the kernel ended it for want of memory; null where that is not known"`
	DurationMS int64  `json:"duration_ms"`
}

// state of the command, with the notices that belong to it.
func (j *job) state(c *common) state {
	if j.running() {
		return state{Running: true, ExitCode: -1, DurationMS: time.Since(j.started).Milliseconds()}
	}
	r := j.result
	switch {
	case r.TimedOut:
		c.note("The command ran out of time; it and everything it started were ended.")
	case r.OOMKilled != nil && *r.OOMKilled:
		c.note("The kernel ended the command, or a part of it, for want of memory.")
	}
	if r.OutputHeld {
		c.note("Something still held the output open after the command's end; the output may be incomplete.")
	}
	return state{ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, OOMKilled: r.OOMKilled, DurationMS: r.Duration.Milliseconds()}
}

var errCanceled = errors.New("the call was cancelled; the command and everything it started were ended")
