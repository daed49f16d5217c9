package audit_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	chain "github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/audit"
)

// records writes a chain of n calls below .sallyport/audit of a new directory,
// which becomes the working directory.
func records(t *testing.T, n int, anchors string) string {
	t.Helper()
	t.Chdir(t.TempDir())
	file := filepath.Join(".sallyport", "audit", "sandboxd", "audit.jsonl")
	l, err := chain.Open(chain.Options{File: file, AnchorDir: anchors})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		p, err := l.Begin(chain.Call{Principal: "token:poke", Tool: fmt.Sprint("tool", i), Session: "s\x1b[2J", Arguments: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		p.End(chain.Outcome{Verdict: []string{"ok", "error"}[i%2]})
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return file
}

func run(args ...string) (code int, stdout, stderr string) {
	var out, errs strings.Builder
	code = audit.Main(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func want(t *testing.T, code, wantCode int, text string, parts ...string) {
	t.Helper()
	if code != wantCode {
		t.Errorf("exit code %d, want %d: %s", code, wantCode, text)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in %q", part, text)
		}
	}
}

func TestVerify(t *testing.T) {
	anchors := t.TempDir()
	file := records(t, 10, anchors)
	code, out, _ := run("verify")
	want(t, code, 0, out, "ok", "records 1 to 21, whole", "signed up to 21", "not compared with anchors")
	code, out, _ = run("verify", "-anchors", anchors)
	want(t, code, 0, out, "anchored up to 21")
	raw, _ := os.ReadFile(file)
	os.WriteFile(file, []byte(strings.Replace(string(raw), "tool3", "toolX", 1)), 0o600)
	code, out, _ = run("verify", file)
	want(t, code, 1, out, "WRONG", file+":8", "changed")
	var said strings.Builder
	audit.Report(&said, file, chain.Report{Finding: &chain.Finding{File: file, Kind: chain.Inserted, Detail: "\x1b[2J\u202e\u05d0\nok"}}, false)
	want(t, 0, 0, said.String(), `\u{1b}[2J\u{202e}\u{5d0}\u{a}ok`)
	code, _, errs := run("verify", "none")
	want(t, code, 2, errs, "none", "FILE is the audit.jsonl of a chain")
}

func TestTailGrepShow(t *testing.T) {
	records(t, 10, "")
	code, out, _ := run("tail", "-n", "3")
	want(t, code, 0, out, "tool9")
	if n := strings.Count(out, "\n"); n != 3 {
		t.Errorf("%d lines", n)
	}
	code, out, _ = run("grep", "-verdict", "error", "-tool", "tool3")
	want(t, code, 0, out, "tool3", "error")
	code, out, _ = run("grep", "tool4")
	if want(t, code, 0, out, "tool4"); strings.Count(out, "\n") != 2 {
		t.Errorf("%s", out)
	}
	code, _, _ = run("grep", "-since", "1ns", "tool4")
	want(t, code, 1, "")
	for _, seq := range []string{"4", "5"} { // its begin and its end
		code, out, _ = run("show", seq)
		want(t, code, 0, out, "tool1", "begin", "error", `\u{1b}[2J`)
	}
	code, _, errs := run("show", "999")
	want(t, code, 1, errs, "no record 999")
	code, _, errs = run("grep", "zzz")
	want(t, code, 1, errs, "nothing was found")
	file := filepath.Join(".sallyport", "audit", "sandboxd", "audit.jsonl")
	code, out, _ = run("grep", "-tool", "tool4", file) // a FILE alone is no TEXT
	want(t, code, 0, out, "tool4")
	code, out, _ = run("grep", "tool4", file)
	if want(t, code, 0, out, "tool4"); strings.Count(out, "\n") != 2 {
		t.Errorf("%s", out)
	}
	os.WriteFile("notes.md", []byte("no record\n"), 0o600)
	code, _, errs = run("tail", "notes.md")
	want(t, code, 1, errs, "nothing was found: notes.md holds no record")
	code, _, errs = run("grep", "-since", "5x", "tool")
	want(t, code, 2, errs, "-since a time such as 2h")
	code, out, _ = run("tail", "-json", "-n", "1")
	want(t, code, 0, out, `{"seq":21,`)
}

// Two records are named one below the other, and the host that egress was asked for
// stands in its line.
func TestSeveralAndTarget(t *testing.T) {
	file := records(t, 1, "")
	other := filepath.Join(".sallyport", "audit", "egress", "audit.jsonl")
	l, err := chain.Open(chain.Options{File: other})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	code, _, errs := run("tail")
	want(t, code, 2, errs, "\n  "+file, "\n  "+other)
	usual := chain.Record{Kind: chain.KindEnd, Verdict: "timeout", Seq: 123456, Principal: "token:claude", Tool: "run_command",
		MS: 30123, ResultBytes: 1234}
	if line := audit.Line(usual); len(line) > 80 || !strings.Contains(line, "timeout   token:claude   run_command 30123 ms") {
		t.Errorf("a usual record has %d columns: %s", len(line), line)
	}
	if line := audit.Line(chain.Record{Details: map[string]string{"target": "host.example:443"}}); !strings.Contains(line, "target=host.example:443") {
		t.Error(line)
	}
}

func TestAnchor(t *testing.T) {
	file := records(t, 2, "")
	code, note, _ := run("anchor")
	want(t, code, 0, note, "sallyport-audit/", "\n5\n", "\u2014 ")
	kept := filepath.Join(t.TempDir(), "kept")
	os.WriteFile(kept, []byte(note), 0o600)
	code, out, _ := run("verify", "-anchors", kept, file)
	want(t, code, 0, out, "anchored up to 5")
	os.WriteFile(kept, []byte(strings.Replace(note, "\n5\n", "\n6\n", 1)), 0o600)
	code, out, _ = run("verify", "-anchors", kept, file)
	want(t, code, 1, out, "WRONG", "signature")
}

func TestUsage(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, args := range [][]string{nil, {"nonsense"}, {"tail", "-x"}, {"show"}, {"verify"}, {"tail", "-n", "-1", "x"}} {
		code, _, errs := run(args...)
		want(t, code, 2, errs)
		if errs == "" {
			t.Errorf("%v: nothing is said", args)
		}
	}
	code, out, _ := run("-h")
	want(t, code, 0, out, "usage: ")
	code, _, errs := run("foo")
	want(t, code, 2, errs, `there is no verb "foo"`)
}

// A terminal of 80 columns breaks no row itself: what a client called its tool would then
// look like a row of its own. Elsewhere a row is one line, for grep.
func TestRowsOnATerminal(t *testing.T) {
	t.Chdir(t.TempDir())
	file := filepath.Join(".sallyport", "audit", "sandboxd", "audit.jsonl")
	l, err := chain.Open(chain.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	l.Refused(chain.Call{Principal: "token:p", Tool: strings.Repeat("x", 19) + "9      11-30 09:00:00 end     ok"}, "denied")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := run("tail"); strings.Count(out, "\n") != 2 {
		t.Errorf("not a line each: %s", out)
	}
	master, slave := pty(t)
	if code := audit.Main(t.Context(), []string{"tail"}, slave, slave); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	slave.WriteString("end\n")
	rows := 0
	for in := bufio.NewScanner(master); in.Scan() && in.Text() != "end"; {
		line := strings.TrimRight(in.Text(), "\r")
		if terminal.Columns(line) > 80 {
			t.Errorf("the terminal breaks %q", line)
		}
		if line[0] != ' ' {
			rows++
		}
	}
	if rows != 2 {
		t.Errorf("%d rows, want 2", rows)
	}
}

func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	n := 0
	if err == nil {
		t.Cleanup(func() { master.Close() })
		n, err = unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	}
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("not on this machine: no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	return master, slave
}

// A line break in what a client chose begins no member of the record that is shown:
// the members are what they were.
func TestShowForgesNoMember(t *testing.T) {
	t.Chdir(t.TempDir())
	file := filepath.Join(".sallyport", "audit", "sandboxd", "audit.jsonl")
	l, err := chain.Open(chain.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	tools := []string{"plain", "x\nverdict         ok\nseq             1", strings.Repeat("日", 36) + "verdict ok"}
	for _, tool := range tools {
		l.Refused(chain.Call{Principal: "token:p", Tool: tool}, "denied")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	members := []int{}
	for seq := range tools {
		code, out, errs := run("show", fmt.Sprint(seq+2))
		want(t, code, 0, out+errs, "denied")
		n := 0
		for line := range strings.SplitSeq(out, "\n") {
			if line != "" && line[0] != ' ' {
				n++
			}
			if terminal.Columns(line) > 80 && strings.Contains(line, "日") {
				t.Errorf("the terminal breaks %q", line)
			}
		}
		members = append(members, n)
	}
	if members[0] < 4 || members[1] != members[0] || members[2] != members[0] {
		t.Errorf("the records have %v members", members)
	}
}
