package tool

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxWait is how long command_output waits at most, in seconds: below the 60 s
// after which many clients give up.
const maxWait = 50

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
	StdoutSkipped int64  `json:"stdout_skipped" jsonschema:"bytes between the cursor and this text that are no longer kept"`
	StderrSkipped int64  `json:"stderr_skipped"`
	Cursor        string `json:"cursor" jsonschema:"where the next call goes on"`
	More          bool   `json:"more" jsonschema:"whether more output is there already"`
}

func (s *Set) addCommandOutput(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name:        "command_output",
		Description: "Read what a background command has written, from a cursor on, and how it stands. The output stays readable after its end; of each stream the beginning and the end are kept.",
		Annotations: hints("Read a command's output", true, false, true, false),
		InputSchema: arguments(
			need("handle", "string", "the command, as start_command or run_command named it"),
			may("cursor", "string", "cursor of the answer before (default: from the beginning)"),
			may("wait_seconds", "integer", fmt.Sprintf("wait so long for new output or the end, 0 to %d (default 0)", maxWait)),
		),
	}, s.commandOutput)
}

func (s *Set) commandOutput(ctx context.Context, _ *mcp.CallToolRequest, in outputIn) (*outputOut, error) {
	j, err := s.background.find(in.Handle, s.owner(ctx))
	if err != nil {
		return nil, err
	}
	wait, err := within("wait_seconds", in.Wait, 0, 0, maxWait)
	if err != nil {
		return nil, err
	}
	var outAt, errAt int64
	if in.Cursor != "" {
		if n, err := fmt.Sscanf(in.Cursor, "%d.%d", &outAt, &errAt); n != 2 || err != nil || outAt < 0 || errAt < 0 || outAt > j.out.Size() || errAt > j.errout.Size() {
			return nil, errors.New("the cursor is not one that command_output gave out for this command")
		}
	}
	j.wait(ctx, time.Duration(wait)*time.Second, outAt, errAt)
	return j.page(outAt, errAt, s.cfg.OutputLimit/4), nil
}

// wait returns when there is something behind the offsets, at j's end, or in
// time.
func (j *job) wait(ctx context.Context, most time.Duration, outAt, errAt int64) {
	end := time.NewTimer(most)
	defer end.Stop()
	look := time.NewTicker(50 * time.Millisecond)
	defer look.Stop()
	for j.out.Size() <= outAt && j.errout.Size() <= errAt {
		select {
		case <-j.done:
			return
		case <-end.C:
			return
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// page is the output from the offsets on, at most limit bytes of each stream.
func (j *job) page(outAt, errAt int64, limit int) *outputOut {
	out := &outputOut{}
	ended := !j.running() // asked first: then all that was written is there
	out.state = j.state(&out.common)
	out.Stdout, outAt, out.StdoutSkipped = j.out.Page(outAt, limit, ended)
	out.Stderr, errAt, out.StderrSkipped = j.errout.Page(errAt, limit, ended)
	out.Cursor = fmt.Sprintf("%d.%d", outAt, errAt)
	// Up to three bytes may be the beginning of a rune that is not yet whole.
	left := max(j.out.Size()-outAt, j.errout.Size()-errAt)
	out.More = left >= utf8.UTFMax || ended && left > 0
	out.summary = fmt.Sprintf("running %t, exit_code %d; %d bytes of stdout and %d of stderr are in the structured content; the next cursor is %s. The last of stdout:\n%s\nThe last of stderr:\n%s",
		out.Running, out.ExitCode, len(out.Stdout), len(out.Stderr), out.Cursor, last(out.Stdout), last(out.Stderr))
	return out
}

type stopIn struct {
	Handle string `json:"handle"`
}

type stopOut struct {
	common
	state
}

func (s *Set) addStopCommand(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name:        "stop_command",
		Description: "End a background command and everything it started. Its output stays readable.",
		Annotations: hints("Stop a command", false, true, true, false),
		InputSchema: arguments(need("handle", "string", "the command, as start_command or run_command named it")),
	}, s.stopCommand)
}

func (s *Set) stopCommand(ctx context.Context, _ *mcp.CallToolRequest, in stopIn) (*stopOut, error) {
	j, err := s.background.find(in.Handle, s.owner(ctx))
	if err != nil {
		return nil, err
	}
	j.proc.Kill()
	select {
	case <-j.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := &stopOut{}
	out.state = j.state(&out.common)
	return out, nil
}
