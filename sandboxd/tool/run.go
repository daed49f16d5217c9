package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/sandboxd/command"
)

// The timeout of run_command in seconds.
const (
	defaultTimeout = 30
	maxTimeout     = 120
)

// progressEvery is how often a client that asked for it hears of a running
// command: often enough for the 60 s after which many clients give up.
const progressEvery = 5 * time.Second

type runIn struct {
	Command string `json:"command"`
	Timeout *int   `json:"timeout_seconds"`
	Workdir string `json:"workdir"`
	After   *int   `json:"background_after_seconds"`
}

type runOut struct {
	common
	state
	Stdout          string `json:"stdout"`
	Stderr          string `json:"stderr"`
	StdoutTruncated bool   `json:"stdout_truncated" jsonschema:"whether the middle of stdout was left out"`
	StderrTruncated bool   `json:"stderr_truncated"`
	Handle          string `json:"handle,omitempty" jsonschema:"of the command that goes on in the background"`
}

func (s *Set) addRunCommand(server *mcp.Server) {
	args := []property{
		need("command", "string", "the command line for /bin/sh"),
		may("timeout_seconds", "integer", fmt.Sprintf("seconds after which it is ended, 1 to %d (default %d)", maxTimeout, defaultTimeout)),
		may("workdir", "string", "directory to start in, relative to the workspace (default: the workspace)"),
	}
	if s.on("command_output") {
		args = append(args, may("background_after_seconds", "integer", fmt.Sprintf("answer after so many seconds, 1 to %d, and leave the command running: "+
			"read on with command_output. Its time is then %d s unless timeout_seconds is given", maxWait, defaultLifetime)))
	}
	add(s, server, &mcp.Tool{
		Name: "run_command",
		Description: fmt.Sprintf("Run a shell command (/bin/sh -lc) in the workspace, %s. Everything it starts is ended with it. "+
			"Of stdout and stderr %d bytes each are kept, the beginning and the end. stdin is empty.%s", s.cfg.Workspace, s.cfg.OutputLimit, s.network()),
		Annotations: hints("Run a command", false, true, false, true),
		InputSchema: arguments(args...),
	}, s.runCommand)
}

// network tells a model what not to waste its turns on.
func (s *Set) network() string {
	if s.cfg.Network == jail.Container {
		return " The network is the container's: loopback, and what the container may reach."
	}
	return " There is no network, not even loopback: downloads, package installs and local servers fail."
}

func (s *Set) runCommand(ctx context.Context, req *mcp.CallToolRequest, in runIn) (*runOut, error) {
	seconds, err := within("timeout_seconds", in.Timeout, defaultTimeout, 1, maxTimeout)
	if err != nil {
		return nil, err
	}
	limit := time.Duration(seconds) * time.Second
	if in.After != nil {
		if in.Timeout == nil {
			limit = defaultLifetime * time.Second
		}
		return s.runAWhile(ctx, req, in, limit)
	}
	leave, err := s.shares.enter(ctx, s.owner(ctx))
	if err != nil {
		return nil, err
	}
	defer leave()
	c, err := s.runner.Start(ctx, in.Command, in.Workdir, limit)
	if err != nil {
		return nil, err
	}
	s.started(ctx, c)
	s.follow(ctx, req, c, nil)
	if ctx.Err() != nil {
		return nil, errCanceled
	}
	return report(c), nil
}

// runAWhile runs a command that goes on in the background when it takes longer
// than the caller wants to wait. Until then it ends with the call.
func (s *Set) runAWhile(ctx context.Context, req *mcp.CallToolRequest, in runIn, limit time.Duration) (*runOut, error) {
	after, err := within("background_after_seconds", in.After, 0, 1, maxWait)
	if err != nil {
		return nil, err
	}
	if s.cfg.Granted != nil && !s.cfg.Granted(ctx, "command_output") {
		return nil, errors.New("background_after_seconds needs command_output, which is not granted to you")
	}
	c, err := s.runner.StartFor(s.owner(ctx), in.Command, in.Workdir, limit)
	if err != nil {
		return nil, err
	}
	s.started(ctx, c)
	keep := context.AfterFunc(ctx, c.Kill)
	s.follow(ctx, req, c, time.After(time.Duration(after)*time.Second))
	out := report(c)
	switch canceled := !keep(); {
	case canceled:
		s.runner.Forget(c)
		return nil, errCanceled
	case out.Running:
		out.Handle = c.Handle
		out.note("The command goes on in the background: read on with command_output, end it with stop_command.")
	default:
		s.runner.Forget(c)
	}
	return out, nil
}

// follow waits for c's end, or for enough, and reports progress to a client
// that gave a token.
func (s *Set) follow(ctx context.Context, req *mcp.CallToolRequest, c *command.Command, enough <-chan time.Time) {
	token := req.Params.GetProgressToken()
	tick := time.NewTicker(s.progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.Done():
			return
		case <-enough:
			return
		case <-tick.C:
			if token == nil {
				continue
			}
			seconds := time.Since(c.Started).Seconds()
			req.Session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
				ProgressToken: token,
				Progress:      seconds,
				Message:       fmt.Sprintf("running for %.0f s, %d bytes of output", seconds, c.Stdout.Size()+c.Stderr.Size()),
			})
		}
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

// stateOf notes what belongs to a command's end beside its numbers.
func stateOf(c *command.Command, out *common) state {
	r, ended := c.Result()
	switch {
	case !ended:
		return state{Running: true, ExitCode: -1, DurationMS: time.Since(c.Started).Milliseconds()}
	case r.TimedOut:
		out.note("The command ran out of time; it and everything it started were ended.")
	case r.OOMKilled != nil && *r.OOMKilled:
		out.note("The kernel ended the command, or a part of it, for want of memory.")
	}
	if r.OutputHeld {
		out.note("Something still held the output open after the command's end; the output may be incomplete.")
	}
	if r.Unkillable {
		out.note("Something that was killed hangs in the kernel and is not gone yet.")
	}
	return state{ExitCode: r.ExitCode, Signal: r.Signal, TimedOut: r.TimedOut, OOMKilled: r.OOMKilled, DurationMS: r.Duration.Milliseconds()}
}

var errCanceled = errors.New("the call was cancelled; the command and everything it started were ended")

// report is the result of run_command.
func report(c *command.Command) *runOut {
	out := &runOut{}
	out.state = stateOf(c, &out.common)
	out.failed = !out.Running && (out.ExitCode != 0 || out.TimedOut || out.Signal != "")
	out.Stdout, out.StdoutTruncated = c.Stdout.Text()
	out.Stderr, out.StderrTruncated = c.Stderr.Text()
	out.summary = fmt.Sprintf("exit_code %d, signal %q, timed_out %t after %d ms; %d bytes of stdout and %d of stderr are in the structured content. "+
		"For a smaller answer let the command filter its output. The last of stdout:\n%s\nThe last of stderr:\n%s",
		out.ExitCode, out.Signal, out.TimedOut, out.DurationMS, len(out.Stdout), len(out.Stderr), last(out.Stdout), last(out.Stderr))
	return out
}

// last is the end of text, at most 2 KiB, for a summary.
func last(text string) string {
	if len(text) > 2<<10 {
		text = strings.ToValidUTF8(text[len(text)-2<<10:], "")
	}
	return text
}
