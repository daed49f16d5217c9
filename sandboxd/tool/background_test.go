package tool_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

type outputResult struct {
	runResult
	StdoutSkipped int64 `json:"stdout_skipped"`
	Cursor        string
	More          bool
}

func (b *box) start(command string) (handle string) {
	b.t.Helper()
	var got struct{ Handle string }
	b.call("start_command", args{"command": command}, &got)
	if len(got.Handle) < 20 {
		b.t.Fatalf("handle %q", got.Handle)
	}
	return got.Handle
}

// output reads all output up to the command's end.
func (b *box) output(handle string) (all outputResult) {
	b.t.Helper()
	cursor := ""
	for {
		var got outputResult
		b.call("command_output", args{"handle": handle, "cursor": cursor, "wait_seconds": 50}, &got)
		got.Stdout, got.Stderr = all.Stdout+got.Stdout, all.Stderr+got.Stderr
		got.StdoutSkipped += all.StdoutSkipped
		if all = got; !got.Running && !got.More {
			return all
		}
		cursor = got.Cursor
	}
}

func TestBackgroundCommand(t *testing.T) {
	b := newBox(t)
	handle := b.start("echo one; while ! test -e go-on; do sleep 0.01; done; echo two; echo three >&2; exit 3")
	var got outputResult
	b.call("command_output", args{"handle": handle, "wait_seconds": 50}, &got)
	if got.Stdout != "one\n" || !got.Running || got.ExitCode != -1 || got.More {
		t.Errorf("while it runs: %+v", got)
	}
	var again outputResult
	b.call("command_output", args{"handle": handle, "cursor": got.Cursor}, &again)
	if again.Stdout != "" || again.Cursor != got.Cursor {
		t.Errorf("nothing new: %+v", again)
	}
	b.put("go-on", "")
	all := b.output(handle)
	if all.Stdout != "one\ntwo\n" || all.Stderr != "three\n" || all.ExitCode != 3 || all.Running {
		t.Errorf("at the end: %+v", all)
	}
	if kept := b.output(handle); kept.Stdout != all.Stdout {
		t.Errorf("later: %+v", kept)
	}
}

// Whoever waits for output is not answered with half a character.
func TestWaitForAWholeCharacter(t *testing.T) {
	b := newBox(t)
	handle := b.start(`printf 'a\342'; while ! test -e go-on; do sleep 0.01; done; printf '\202\254'; while ! test -e end; do sleep 0.01; done`)
	var got outputResult
	b.call("command_output", args{"handle": handle, "wait_seconds": 50}, &got)
	if got.Stdout != "a" {
		t.Fatalf("%+v", got)
	}
	go func() {
		time.Sleep(200 * time.Millisecond) // the call below waits meanwhile, if it comes later it only shows less
		b.put("go-on", "")
	}()
	b.call("command_output", args{"handle": handle, "wait_seconds": 50, "cursor": got.Cursor}, &got)
	if got.Stdout != "€" {
		t.Errorf("%+v", got)
	}
	b.put("end", "")
}

func TestBackgroundOutputInPages(t *testing.T) {
	b := newBox(t, func(c *tool.Config) { c.OutputLimit = 8192 })
	handle := b.start("seq 1 10000")
	all := b.output(handle)
	if !strings.HasPrefix(all.Stdout, "1\n2\n3\n") || !strings.HasSuffix(all.Stdout, "\n9999\n10000\n") {
		t.Errorf("%.20q … %q", all.Stdout, all.Stdout[len(all.Stdout)-20:])
	}
	if total := int64(len(all.Stdout)) + all.StdoutSkipped; total != 48894 {
		t.Errorf("%d bytes shown and skipped", total)
	}
	for _, cursor := range []string{"x", "1", "-1.0", "0.99999999", "99999999.0"} {
		b.refused("command_output", args{"handle": handle, "cursor": cursor})
	}
}

// A program in the background is sent input by way of a named pipe, as the
// description of start_command says.
func TestInputByNamedPipe(t *testing.T) {
	b := newBox(t)
	if words := b.describe("start_command"); !strings.Contains(words, "mkfifo in; PROGRAM <>in") {
		t.Errorf("description: %s", words)
	}
	handle := b.start("mkfifo in; while read line; do echo got $line; [ $line = 2 ] && exit; done <>in")
	for _, line := range []string{"1", "2"} {
		if got := b.sh("while ! [ -p in ]; do sleep 0.01; done; echo " + line + " >in"); got.ExitCode != 0 {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if got := b.output(handle); got.Stdout != "got 1\ngot 2\n" {
		t.Errorf("%+v", got)
	}
	if got := b.output(b.start("cat")); got.Stdout != "" || got.ExitCode != 0 {
		t.Errorf("without a pipe: %+v", got)
	}
}

func TestStopCommand(t *testing.T) {
	b := newBox(t)
	handle := b.start("echo $$ >pid; echo begun; sleep 1000")
	b.await("pid")
	var got runResult
	b.call("stop_command", args{"handle": handle}, &got)
	if got.Running || got.Signal != "SIGTERM" || got.TimedOut {
		t.Errorf("%+v", got)
	}
	b.dead("pid")
	if all := b.output(handle); all.Stdout != "begun\n" {
		t.Errorf("output afterwards: %+v", all)
	}
	b.call("stop_command", args{"handle": handle}, &got)
}

func TestLifetime(t *testing.T) {
	b := newBox(t)
	var got struct{ Handle string }
	b.call("start_command", args{"command": "sleep 1000", "lifetime_seconds": 1}, &got)
	if all := b.output(got.Handle); !all.TimedOut || all.Running {
		t.Errorf("%+v", all)
	}
	for _, seconds := range []int{0, 86401} {
		b.refused("start_command", args{"command": "true", "lifetime_seconds": seconds})
	}
}

func TestHandlesSurviveAReconnect(t *testing.T) {
	b := newBox(t)
	handle := b.start("while ! test -e go-on; do sleep 0.01; done; echo done")
	b.client.Close()
	b.client = connect(t, b.set, nil)
	b.put("go-on", "")
	if all := b.output(handle); all.Stdout != "done\n" {
		t.Errorf("%+v", all)
	}
}

type callerKey struct{}

func principal(ctx context.Context) string { return fmt.Sprint(ctx.Value(callerKey{})) }

// as is a client whose calls are name's, where principal tells the clients.
func (b *box) as(name string) *mcp.ClientSession {
	server := mcp.NewServer(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	server.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			return next(context.WithValue(ctx, callerKey{}, name), method, req)
		}
	})
	b.set.Register(server)
	return attach(b.t, server, nil)
}

func TestHandlesAreBoundToTheirOwner(t *testing.T) {
	b := newBox(t, func(c *tool.Config) { c.Principal = principal })
	alice, mallory := b.as("alice"), b.as("mallory")
	b.client = alice
	handle := b.start("sleep 1000")
	b.client = mallory
	for _, name := range []string{"command_output", "stop_command"} {
		if words := b.refused(name, args{"handle": handle}); strings.Contains(words, handle) || strings.Contains(words, "sleep") {
			t.Errorf("%s tells another: %s", name, words)
		}
	}
	b.client = alice
	var got outputResult
	if b.call("command_output", args{"handle": handle}, &got); !got.Running {
		t.Errorf("another stopped it: %+v", got)
	}
	if words := b.refused("command_output", args{"handle": "lost"}); !strings.Contains(words, handle) || !strings.Contains(words, "sleep 1000") {
		t.Errorf("the owner is not told: %s", words)
	}
	b.call("stop_command", args{"handle": handle}, &got)
}

func TestTooManyBackgroundCommands(t *testing.T) {
	b := newBox(t)
	var handles []string
	for range 8 {
		handles = append(handles, b.start("sleep 1000"))
	}
	if words := b.refused("start_command", args{"command": "touch ran"}); !strings.Contains(words, "stop_command") || !strings.Contains(words, handles[3]) {
		t.Errorf("words: %s", words)
	}
	if b.exists("ran") {
		t.Error("a refused command ran")
	}
	b.call("stop_command", args{"handle": handles[0]}, &runResult{})
	b.output(b.start("true"))
	// Ended ones are forgotten only when their place is needed.
	for range 70 {
		b.output(b.start("true"))
	}
	b.refused("command_output", args{"handle": handles[0]})
	var got outputResult
	if b.call("command_output", args{"handle": handles[7]}, &got); !got.Running {
		t.Errorf("%+v", got)
	}
}

func TestCloseEndsBackgroundCommands(t *testing.T) {
	b := newBox(t)
	b.start("echo $$ >pid; sleep 1000")
	b.await("pid")
	must(t, b.set.Close())
	b.dead("pid")
	must(t, os.Remove(b.path("pid")))
}

func TestRunCommandGoesToTheBackground(t *testing.T) {
	b := newBox(t)
	quick, _ := b.run(args{"command": "echo quick", "background_after_seconds": 50})
	if quick.Running || quick.Handle != "" || quick.Stdout != "quick\n" {
		t.Errorf("a quick one: %+v", quick)
	}
	got, res := b.run(args{"command": "echo begun; while ! test -e go-on; do sleep 0.01; done; echo done", "background_after_seconds": 1})
	if res.IsError || !got.Running || got.Handle == "" || got.ExitCode != -1 || !strings.Contains(text(res), got.Handle) {
		t.Fatalf("%+v %s", got, text(res))
	}
	b.put("go-on", "")
	if all := b.output(got.Handle); all.Stdout != "begun\ndone\n" || all.ExitCode != 0 {
		t.Errorf("%+v", all)
	}
	got, _ = b.run(args{"command": "sleep 1000", "background_after_seconds": 50, "timeout_seconds": 1})
	if !got.TimedOut || got.Running {
		t.Errorf("with a timeout: %+v", got)
	}
	for _, seconds := range []int{0, 51} {
		b.refused("run_command", args{"command": "true", "background_after_seconds": seconds})
	}
}

func TestCancelledBeforeTheBackground(t *testing.T) {
	b := newBox(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := b.client.CallTool(ctx, &mcp.CallToolParams{Name: "run_command", Arguments: args{"command": "echo $$ >pid; sleep 1000", "background_after_seconds": 50}})
		done <- err
	}()
	b.await("pid")
	cancel()
	<-done
	b.dead("pid")
}

func TestBackgroundNeedsItsGrant(t *testing.T) {
	b := newBox(t, func(c *tool.Config) {
		c.Granted = func(_ context.Context, name string) bool { return name == "run_command" }
	})
	if words := b.refused("run_command", args{"command": "true", "background_after_seconds": 1}); !strings.Contains(words, "not granted") {
		t.Errorf("words: %s", words)
	}
	b.client.Close()
	three := newBox(t, func(c *tool.Config) { c.Enabled = nil })
	if words := three.refused("run_command", args{"command": "true", "background_after_seconds": 1}); !strings.Contains(words, "there is no argument") {
		t.Errorf("words: %s", words)
	}
}
