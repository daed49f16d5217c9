package tool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/command"
	"github.com/sallyport-dev/sallyport/sandboxd/output"
)

// The times of background commands, in seconds.
const (
	defaultLifetime = 3600
	maxLifetime     = 86400
	maxWait         = 50 // below the 60 s after which many clients give up
)

// maxPage is how many bytes of each stream one answer of command_output has:
// both, and what is said about them, fit into the text copy.
const maxPage = textLimit/2 - 1<<10

type startIn struct {
	Command  string `json:"command"`
	Workdir  string `json:"workdir"`
	Lifetime *int   `json:"lifetime_seconds"`
}

type startOut struct {
	common
	Handle string `json:"handle" jsonschema:"what command_output and stop_command ask for"`
}

func (o *startOut) text() string { return "handle " + o.Handle }

func (s *Set) addStartCommand(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "start_command",
		Description: "Start a shell command (/bin/sh) in the workspace and leave it running in the background, also " +
			"when the connection is lost. " +
			"Read what it writes with command_output, end it with stop_command. stdin is empty; a program that shall " +
			"have input can read a named pipe (mkfifo in; PROGRAM <>in), which run_command writes to." + s.network(),
		Annotations: hints("Start a command", false, true, false, true),
	}, []property{
		need("command", "string", "the command line for /bin/sh"),
		may("workdir", "string", "directory to start in, relative to the workspace (default: the workspace)"),
		may("lifetime_seconds", "integer", fmt.Sprintf("seconds after which it is ended, 1 to %d (default %d)",
			maxLifetime, defaultLifetime)),
	}, s.startCommand)
}

func (s *Set) startCommand(ctx context.Context, _ *mcp.CallToolRequest, in startIn) (*startOut, error) {
	seconds, err := within("lifetime_seconds", in.Lifetime, defaultLifetime, 1, maxLifetime)
	if err != nil {
		return nil, err
	}
	c, err := s.runner.StartFor(s.owner(ctx), in.Command, in.Workdir, time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	s.started(ctx, c)
	out := &startOut{Handle: c.Handle}
	s.noteLeft(&out.common, in.Command)
	for _, line := range c.Notices {
		out.note("%s", line)
	}
	if line := c.Room(); line != "" {
		out.note("%s", line)
	}
	return out, nil
}

func (s *Set) owner(ctx context.Context) string {
	if s.cfg.Principal == nil {
		return ""
	}
	return s.cfg.Principal(ctx)
}

type outputIn struct {
	Handle string `json:"handle"`
	Cursor string `json:"cursor"`
	Wait   *int   `json:"wait_seconds"`
}

type outputOut struct {
	common
	state
	Stdout        string `json:"stdout" jsonschema:"what follows the cursor"`
	Stderr        string `json:"stderr"`
	StdoutSkipped int64  `json:"stdout_skipped" jsonschema:"bytes between cursor and this text, no longer kept"`
	StderrSkipped int64  `json:"stderr_skipped"`
	Cursor        string `json:"cursor" jsonschema:"where the next call goes on"`
	More          bool   `json:"more" jsonschema:"whether more output is there already"`
}

func (s *Set) addCommandOutput(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "command_output",
		Description: "Read what a background command has written, from a cursor on, and how it stands. The output " +
			"stays readable after its end; of each stream the beginning and the end are kept.",
		Annotations: hints("Read a command's output", true, false, true, false),
	}, []property{
		need("handle", "string", "the command, as start_command or run_command named it"),
		may("cursor", "string", "cursor of the answer before (default: from the beginning)"),
		may("wait_seconds", "integer", fmt.Sprintf("wait so long for new output or the end, 0 to %d (default 0)",
			maxWait)),
	}, s.commandOutput)
}

func (s *Set) commandOutput(ctx context.Context, _ *mcp.CallToolRequest, in outputIn) (*outputOut, error) {
	c, err := s.runner.Find(in.Handle, s.owner(ctx))
	if err != nil {
		return nil, err
	}
	wait, err := within("wait_seconds", in.Wait, 0, 0, maxWait)
	if err != nil {
		return nil, err
	}
	var outAt, errAt int64
	if in.Cursor != "" {
		if n, err := fmt.Sscanf(in.Cursor, "%d.%d", &outAt, &errAt); n != 2 || err != nil || outAt < 0 || errAt < 0 ||
			outAt > c.Stdout.Size() || errAt > c.Stderr.Size() {
			return nil, errors.New("the cursor is not one that command_output gave out for this command")
		}
	}
	await(ctx, c, time.Duration(wait)*time.Second, outAt, errAt)
	return s.page(c, outAt, errAt, min(maxPage, s.cfg.OutputLimit/4)), nil
}

// await returns when there is something behind the offsets, at c's end, or in
// time.
func await(ctx context.Context, c *command.Command, most time.Duration, outAt, errAt int64) {
	end := time.NewTimer(most)
	defer end.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for !news(c.Stdout, outAt) && !news(c.Stderr, errAt) {
		select {
		case <-c.Done():
			return
		case <-end.C:
			return
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// news is whether a page from at on has anything. The beginning of a rune is
// nothing: whoever waits for more would else get an empty answer at once, again
// and again.
func news(b *output.Buffer, at int64) bool {
	if b.Size() <= at {
		return false
	}
	_, next, _ := b.Page(at, utf8.UTFMax, false)
	return next > at
}

// page is the output from the offsets on, at most limit bytes of each stream.
func (s *Set) page(c *command.Command, outAt, errAt int64, limit int) *outputOut {
	out := &outputOut{}
	out.state = s.stateOf(c, &out.common) // asked first: of an ended command all that was written is there
	ended := !out.Running
	out.Stdout, outAt, out.StdoutSkipped = c.Stdout.Page(outAt, limit, ended)
	out.Stderr, errAt, out.StderrSkipped = c.Stderr.Page(errAt, limit, ended)
	out.Cursor = fmt.Sprintf("%d.%d", outAt, errAt)
	// Up to three bytes may be the beginning of a rune that is not yet whole.
	left := max(c.Stdout.Size()-outAt, c.Stderr.Size()-errAt)
	out.More = left >= utf8.UTFMax || ended && left > 0
	if ended {
		// Not at each page: it goes through all that is kept.
		out.Notices = append(out.Notices, c.Tell(func() []string {
			var found common
			stdout, _ := c.Stdout.Text()
			stderr, _ := c.Stderr.Text()
			s.explain(&found, out.state, c.Line(), stdout, stderr)
			return found.Notices
		})...)
	}
	return out
}

// text is the whole page: a page is small enough for it.
func (o *outputOut) text() string {
	var b strings.Builder
	b.WriteString(o.state.line())
	if o.More {
		fmt.Fprintf(&b, "; more output is there: go on with cursor %s", o.Cursor)
	} else {
		fmt.Fprintf(&b, "; the next cursor is %s", o.Cursor)
	}
	if o.StdoutSkipped+o.StderrSkipped > 0 {
		fmt.Fprintf(&b, "; before this, %d bytes of stdout and %d of stderr are no longer kept", o.StdoutSkipped,
			o.StderrSkipped)
	}
	b.WriteString(streams(o.Stdout, o.Stderr, 0, 0, "ask for it again"))
	return b.String()
}

type stopIn struct {
	Handle string `json:"handle"`
}

type stopOut struct {
	common
	state
}

func (o *stopOut) text() string { return o.state.line() }

func (s *Set) addStopCommand(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name:        "stop_command",
		Description: "End a background command and everything it started. Its output stays readable.",
		Annotations: hints("Stop a command", false, true, true, false),
	}, []property{need("handle", "string", "the command, as start_command or run_command named it")}, s.stopCommand)
}

func (s *Set) stopCommand(ctx context.Context, _ *mcp.CallToolRequest, in stopIn) (*stopOut, error) {
	c, err := s.runner.Find(in.Handle, s.owner(ctx))
	if err != nil {
		return nil, err
	}
	c.Stop(false)
	select {
	case <-c.Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := &stopOut{}
	out.state = s.stateOf(c, &out.common)
	return out, nil
}
