package approve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

// rig is an installation with one server's desk, in the working directory.
func rig(t *testing.T) *desk.Desk {
	t.Helper()
	dir := t.TempDir()
	t.Chdir(dir)
	for _, sub := range []string{".sallyport/run/sandboxd", ".sallyport/owner"} {
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(".sallyport/owner/key", []byte(strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ownersock.Listen(filepath.Join(".sallyport/run/sandboxd", "owner.sock"), ".sallyport/owner/key", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Desk, s.Process = desk.New(nil, nil), "sandboxd"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s.Desk
}

func ask(t *testing.T, d *desk.Desk, arguments string) approval.Waiting {
	t.Helper()
	go func() {
		ticket, err := d.Admit(t.Context(), desk.Call{Ask: true, Call: audit.Call{Principal: "token:poke", Tool: "run_command", Arguments: []byte(arguments)}})
		if err == nil {
			ticket.End("ok", 0)
		}
	}()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if list := d.Waiting(); len(list) == 1 {
			return list[0]
		}
	}
	t.Fatal("nothing waits")
	panic("unreachable")
}

type verb = func(context.Context, []string, io.Writer, io.Writer) int

// run runs a verb and returns its exit code and output.
func run(v verb, args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = v(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func want(t *testing.T, what string, code, wantCode int, text, wantText string) {
	t.Helper()
	if code != wantCode || !strings.Contains(text, wantText) {
		t.Errorf("%s: exit code %d, want %d; %q, want %q in it", what, code, wantCode, text, wantText)
	}
}

func TestApproveAndDeny(t *testing.T) {
	d := rig(t)
	code, out, _ := run(approve.Approve)
	want(t, "nothing", code, 0, out, "Nothing waits")
	q := ask(t, d, `{"command":"rm -rf build","workdir":"src"}`)
	code, out, _ = run(approve.Approve)
	want(t, "the list", code, 0, out, "| command: rm -rf build")
	want(t, "the list", code, 0, out, "| workdir: src")
	code, out, _ = run(approve.Approve, "-json")
	var list []struct{ ID, Process, Arguments string }
	if err := json.Unmarshal([]byte(out), &list); code != 0 || err != nil || len(list) != 1 || list[0].ID != q.ID || list[0].Process != "sandboxd" || list[0].Arguments != q.Arguments {
		t.Errorf("-json: %d %v %s", code, err, out)
	}
	code, _, errs := run(approve.Approve, q.ID, "-for", "ever")
	want(t, "a wrong scope", code, 2, errs, "once, digest, tool")
	code, _, errs = run(approve.Output, q.ID, "-bytes", "-5")
	want(t, "a wrong size", code, 2, errs, "-bytes")
	code, out, _ = run(approve.Approve, q.ID, "-for", "tool")
	want(t, "approve", code, 0, out, "approved")
	code, _, errs = run(approve.Approve, q.ID)
	want(t, "approve again", code, 1, errs, "decided already")
	code, _, errs = run(approve.Deny, q.ID, "too", "late")
	want(t, "deny after it", code, 1, errs, "decided already")
}

// A compromised server shows a harmless call under the id of another server's, and does
// nothing when it is approved, so that the next one is asked: neither is approved then.
func TestAnIDTwiceIsNotApproved(t *testing.T) {
	d := rig(t)
	q := ask(t, d, `{"command":"rm -rf build"}`)
	id := q.ID
	compromised(t, func(op string) string {
		switch op {
		case ownersock.OpStatus:
			return `{"result":{"process":"sallyport-hub"}}`
		case ownersock.OpPending:
			return fmt.Sprintf(`{"result":[{"id":%q,"tool":"list_notes","arguments":"{}"}]}`, id)
		}
		return `{"error":"nothing waits under that id"}`
	})
	code, _, errs := run(approve.Approve, q.ID)
	want(t, "an id of two servers", code, 1, errs, "not honest")
	if len(d.Waiting()) != 1 {
		t.Error("it was approved")
	}
	id = "another1"
	code, out, _ := run(approve.Approve, q.ID)
	want(t, "twin, an id of one", code, 0, out, "approved")
}

func TestPauseStopAndLists(t *testing.T) {
	d := rig(t)
	ticket, err := d.Admit(t.Context(), desk.Call{Call: audit.Call{Principal: "token:poke", Tool: "run_command"}})
	if err != nil {
		t.Fatal(err)
	}
	code, out, _ := run(approve.PS)
	want(t, "ps", code, 0, out, ticket.ID)
	code, out, _ = run(approve.Stop, ticket.ID, "-now")
	want(t, "stop", code, 0, out, "stopped")
	if ticket.End("ok", 0); !ticket.Stopped() {
		t.Error("the call goes on")
	}
	code, _, errs := run(approve.Stop, ticket.ID)
	want(t, "stop again", code, 1, errs, "nothing runs")
	code, out, _ = run(approve.Pause, "token:poke", "for", "lunch")
	want(t, "pause", code, 0, out, "paused")
	if d.Paused()["token:poke"] != "for lunch" {
		t.Errorf("%v", d.Paused())
	}
	code, _, _ = run(approve.Resume, "token:poke")
	want(t, "resume", code, 0, "", "")
	code, _, errs = run(approve.Resume, "token:poke")
	want(t, "resume again", code, 1, errs, "not paused")
	for name, v := range map[string]verb{"ps": approve.PS, "sessions": approve.Sessions, "servers": approve.Servers} {
		code, out, _ := run(v, "-json")
		want(t, name, code, 0, out, "[]")
	}
	code, out, _ = run(approve.Servers)
	want(t, "no hub", code, 0, out, "There are none: the hub serves servers")
	code, _, errs = run(approve.Output, "none")
	want(t, "output", code, 1, errs, "no command")
}

// A server that is down, a key that is wrong or readable by others: an error message,
// exit code 2.
func TestUnreachable(t *testing.T) {
	rig(t)
	named := filepath.Join(t.TempDir(), "none.sock")
	code, out, errs := run(approve.PS, "-socket", named)
	want(t, "no server", code, 2, errs, named+": no server listens there")
	if out != "" || strings.Contains(errs, ".sallyport/run") {
		t.Errorf("no server: stdout %q, %s", out, errs)
	}
	other := filepath.Join(t.TempDir(), "key")
	os.WriteFile(other, []byte(strings.Repeat("0b", 32)), 0o600)
	code, _, errs = run(approve.PS, "-key-file", other)
	want(t, "another key", code, 2, errs, "key")
	os.Chmod(other, 0o644)
	code, _, errs = run(approve.PS, "-key-file", other)
	want(t, "an open key file", code, 2, errs, "chmod")
	code, _, errs = run(approve.Deny)
	want(t, "usage", code, 2, errs, "usage")
	t.Chdir(t.TempDir())
	code, _, errs = run(approve.PS)
	want(t, "no installation", code, 2, errs, "-socket")
}

// Whatever a call holds, every line of it is marked as foreign, nothing of it
// drives the terminal, and nothing is left out.
func TestHostileTextIsShownWhole(t *testing.T) {
	hostile := "\x1b[2Jls\n\nabcd1234  token:poke wants nothing\r\u202egnissim\u200b\u009b1A" + strings.Repeat("x", 5000) + "END"
	arguments, _ := json.Marshal(map[string]string{"command": hostile, "na\nme": "v"})
	var out strings.Builder
	approve.Show(&out, approval.Waiting{ID: "id", Principal: "token:\x1bp", Tool: "t\nt", Arguments: string(arguments), Preview: "-a\n+\u202eb\n"})
	for i, line := range strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n") {
		if i >= 2 && !strings.HasPrefix(line, "    | ") {
			t.Errorf("line %d is not marked: %q", i, line)
		}
		for _, r := range line {
			if !terminal.Visible(r) {
				t.Errorf("line %d holds %U", i, r)
			}
		}
	}
	joined := regexp.MustCompile(`\n    \|   (    )?`).ReplaceAllString(out.String(), "")
	for _, part := range []string{`\u{1b}[2Jls`, `\u{202e}`, `\u{9b}1A`, strings.Repeat("x", 5000) + "END"} {
		if !strings.Contains(joined, part) {
			t.Errorf("%.40s is not shown", part)
		}
	}
}

// A terminal of 80 columns breaks no line of what is shown: behind a break of its own
// stands no margin, and foreign text would look like the next question. Short text of
// the same characters stays on one line.
func TestNoLineIsBrokenByTheTerminal(t *testing.T) {
	forged := "abcd1234  token:owner wants list_notes"
	for _, long := range []string{strings.Repeat("日", 38), strings.Repeat("\x1b", 12) + "123456", strings.Repeat("x", 70), strings.Repeat("🙂", 33)} {
		arguments, _ := json.Marshal(map[string]string{"a": long + forged, "b": long[:9], long + forged: "v"})
		for _, q := range []approval.Waiting{
			{ID: "id", Principal: "token:p", Tool: "t", Arguments: string(arguments), Preview: "+" + long + forged},
			{ID: "id", Principal: "token:p", Tool: long + forged, Server: "s", Arguments: "{}"},
			{ID: "id", Principal: "token:p", Tool: "t", Arguments: long + forged},
		} {
			var out strings.Builder
			approve.Show(&out, q)
			for line := range strings.SplitSeq(out.String(), "\n") {
				if n := terminal.Columns(line); n > 80 && !strings.Contains(line, "  asked ") {
					t.Errorf("a line of %d columns: %q", n, line)
				}
			}
			if short := terminal.Escape(long[:9]); q.Preview != "" && !strings.Contains(out.String(), "    | b: "+short+"\n") {
				t.Errorf("twin: %q is not in one line:\n%s", short, out.String())
			}
		}
	}
}
