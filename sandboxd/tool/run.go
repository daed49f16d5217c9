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

	wroteStdout, wroteStderr int64 // bytes, kept or not
}

func (s *Set) addRunCommand(server *mcp.Server) {
	args := []property{
		need("command", "string", "the command line for /bin/sh"),
		may("timeout_seconds", "integer", fmt.Sprintf("seconds after which it is ended, 1 to %d (default %d)",
			maxTimeout, defaultTimeout)),
		may("workdir", "string", "directory to start in, relative to the workspace (default: the workspace)"),
	}
	if s.on("command_output") {
		args = append(args, may("background_after_seconds", "integer",
			fmt.Sprintf("answer after so many seconds, 1 to %d, and leave the command running: "+
				"read on with command_output. Its time is then %d s unless timeout_seconds is given", maxWait,
				defaultLifetime)))
	}
	add(s, server, &mcp.Tool{
		Name: "run_command",
		Description: fmt.Sprintf("Run a shell command (/bin/sh) in the workspace, %s. Everything it starts is ended "+
			"with it. "+
			"Of stdout and stderr %d bytes each are kept, the beginning and the end. stdin is empty. Temporary files "+
			"belong in $TMPDIR.%s%s",
			s.cfg.Workspace, s.cfg.OutputLimit, s.processes(), s.network()),
		Annotations: hints("Run a command", false, true, false, true),
	}, args, s.runCommand)
}

// network tells a model what not to waste its turns on.
func (s *Set) network() string {
	switch s.cfg.Network {
	case jail.Container:
		return " The network is the container's: loopback, and what the container may reach."
	case jail.Allowlist: // what its principal may reach follows where the tools are listed
		if s.cfg.NoUnixSockets {
			return " Unix sockets are refused."
		}
		return ""
	}
	return " There is no network, not even loopback" + s.sockets() +
		": downloads, package installs and local servers fail (npm ci removes node_modules before it does)."
}

// processes tells a model how parallel it may be.
func (s *Set) processes() string {
	if s.cfg.Processes == 0 {
		return ""
	}
	return fmt.Sprintf(" All running commands together may have %d processes and threads.", s.cfg.Processes)
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
	c, err := s.runner.Start(ctx, s.owner(ctx), in.Command, in.Workdir, limit)
	if err != nil {
		return nil, err
	}
	s.started(ctx, c)
	s.follow(ctx, req, c, nil)
	if ctx.Err() != nil {
		return nil, errCanceled
	}
	out := s.report(c)
	s.noteLeft(&out.common, in.Command)
	if out.TimedOut && seconds < maxTimeout {
		out.note("It had %d seconds; with timeout_seconds it gets up to %d.", seconds, maxTimeout)
	}
	if out.TimedOut && s.on("start_command") {
		out.note("For longer work, and for what runs until it is stopped, use start_command.")
	}
	return out, nil
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
	keep := context.AfterFunc(ctx, func() { c.Stop(false) })
	s.follow(ctx, req, c, time.After(time.Duration(after)*time.Second))
	out := s.report(c)
	switch canceled := !keep(); {
	case canceled:
		s.runner.Forget(c)
		return nil, errCanceled
	case out.Running:
		out.Handle = c.Handle
		out.note("The command goes on in the background with the handle %s: read on with command_output, end it with "+
			"stop_command.", c.Handle)
	default:
		s.noteLeft(&out.common, in.Command)
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
				Message: fmt.Sprintf("running for %.0f s, %d bytes of output", seconds,
					c.Stdout.Size()+c.Stderr.Size()),
			})
		}
	}
}

var errCanceled = errors.New("the call was cancelled; the command and everything it started were ended")

// report is the result of run_command.
func (s *Set) report(c *command.Command) *runOut {
	out := &runOut{}
	out.state = s.stateOf(c, &out.common)
	out.failed = !out.Running && (out.ExitCode != 0 || out.TimedOut || out.Signal != "")
	out.Stdout, out.StdoutTruncated = c.Stdout.Text()
	out.Stderr, out.StderrTruncated = c.Stderr.Text()
	out.wroteStdout, out.wroteStderr = c.Stdout.Size(), c.Stderr.Size()
	s.explain(&out.common, out.state, c.Line(), out.Stdout, out.Stderr)
	return out
}

// text is what a terminal would show, below a line with what it would not.
func (o *runOut) text() string {
	const how = "write the output to a file and read that in parts with read_file, or filter it"
	return o.state.line() + streams(o.Stdout, o.Stderr, o.wroteStdout, o.wroteStderr, how)
}

// streams is the output of a command as text. stderr is mostly the shorter and
// the more important one. Of each wrote bytes were written, which are more than
// there are here if some were left out already.
func streams(stdout, stderr string, wroteStdout, wroteStderr int64, how string) string {
	stderr = abridged(stderr, wroteStderr, max(textLimit/4, textLimit-1024-len(stdout)), how)
	stdout = abridged(stdout, wroteStdout, textLimit-1024-len(stderr), how)
	var b strings.Builder
	for name, text := range inOrder("stdout", stdout, "stderr", stderr) {
		if text != "" {
			fmt.Fprintf(&b, "\n%s:\n%s", name, text)
		}
	}
	return b.String()
}

// inOrder ranges over pairs.
func inOrder(pairs ...string) func(func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for i := 0; i < len(pairs); i += 2 {
			if !yield(pairs[i], pairs[i+1]) {
				return
			}
		}
	}
}
