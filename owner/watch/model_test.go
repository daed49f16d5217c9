package watch

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/session"
	"github.com/sallyport-dev/sallyport/internal/terminal"
)

func asks(id, command string) approval.Waiting {
	return approval.Waiting{ID: id, Principal: "token:poke", Tool: "run_command", Arguments: fmt.Sprintf(`{"command":%q}`, command), Asked: time.Now(), Held: 1}
}

func at80x24(v ...seen) *model {
	m := &model{width: 80, height: 24}
	for _, s := range v {
		m.take(s)
	}
	return m
}

// check wants the page to fit the terminal and to hold nothing that drives it
// but the two sequences for the selected line.
func check(t *testing.T, m *model) string {
	t.Helper()
	lines := m.view()
	if len(lines) != m.height {
		t.Errorf("%d lines, the terminal has %d", len(lines), m.height)
	}
	for _, line := range lines {
		line = strings.TrimSuffix(strings.TrimPrefix(line, "\x1b[7m"), "\x1b[0m")
		width := 0
		for _, r := range line {
			if width += terminal.Column(r); !terminal.Visible(r) {
				t.Errorf("%U in %q", r, line)
			}
		}
		if width > m.width {
			t.Errorf("%d columns: %q", width, line)
		}
	}
	return strings.Join(lines, "\n")
}

func want(t *testing.T, page string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(page, part) {
			t.Errorf("%q is not on the page:\n%s", part, page)
		}
	}
}

// What waits is approved only after it was opened and shown to its end.
func TestApproveNeedsReading(t *testing.T) {
	long := strings.Repeat("echo line\n", 100) + "rm -rf /last"
	m := at80x24(seen{path: "a/sandboxd/s", waiting: []approval.Waiting{asks("id1", long)}})
	want(t, check(t, m), "WAITS", "id1")
	if a := m.press("a"); a.request.Op != "" {
		t.Error("approved without being opened")
	}
	m.press(keyEnter)
	if page := check(t, m); strings.Contains(page, "rm -rf /last") {
		t.Error("100 lines on 24")
	}
	if a := m.press("a"); a.request.Op != "" {
		t.Error("approved without being read")
	}
	for range 30 {
		m.press(keyPgDn)
		check(t, m)
	}
	want(t, check(t, m), "rm -rf /last")
	if a := m.press("a"); a.request.Op != ownersock.OpDecide || !a.request.Approve || a.request.For != approval.Once || a.request.ID != "id1" || a.path != "a/sandboxd/s" {
		t.Errorf("%+v", a)
	}
	if a := m.press("t"); a.request.For != approval.Tool {
		t.Errorf("%+v", a)
	}
}

// The decision is for what was shown: when it is gone, and another one comes in
// its place, a key means nothing.
func TestAnotherRequestInItsPlace(t *testing.T) {
	m := at80x24(seen{path: "p", waiting: []approval.Waiting{asks("one", "ls")}})
	m.press(keyEnter)
	check(t, m)
	m.take(seen{path: "p", waiting: []approval.Waiting{asks("two", "rm -rf .")}})
	if a := m.press("a"); a.request.Op != "" {
		t.Errorf("%+v", a)
	}
	check(t, m)
}

func TestDenyWithReason(t *testing.T) {
	m := at80x24(seen{path: "p", waiting: []approval.Waiting{asks("one", "ls")}})
	m.press("d")
	for _, k := range []string{"n", "o", "x", keyBack, "q"} {
		m.press(k)
	}
	want(t, check(t, m), "noq_")
	if a := m.press(keyEnter); a.request.Op != ownersock.OpDecide || a.request.Approve || a.request.Reason != "noq" {
		t.Errorf("%+v", a)
	}
}

func TestStopPauseAndDown(t *testing.T) {
	running := desk.Entry{ID: "r1", State: "running", Principal: "token:poke", Tool: "run_command", Command: "sleep 9", Started: time.Now()}
	m := at80x24(seen{path: "x/sandboxd/s", running: []desk.Entry{running}, status: ownersock.Status{Process: "sandboxd"}},
		seen{path: "x/hub/s", err: fmt.Errorf("no server\x1b[2J listens there")})
	want(t, check(t, m), "hub", "DOWN", "run_command: sleep 9", "NO AUDIT")
	if a := m.press("S"); a.request.Op != ownersock.OpStop || a.request.ID != "r1" || !a.request.Now {
		t.Errorf("%+v", a)
	}
	if a := m.press("p"); a.request.Op != ownersock.OpPause {
		t.Errorf("%+v", a)
	}
	m.servers[1].status.Paused = map[string]string{"": ""}
	want(t, check(t, m), "PAUSED: everything")
	if a := m.press("p"); a.request.Op != ownersock.OpResume {
		t.Errorf("%+v", a)
	}
	if a := m.press(keyEnter); a.watch != "r1" {
		t.Errorf("%+v", a)
	}
	m.servers[1].output, m.servers[1].outputOf = ownersock.Output{Stdout: "hello\x1b[2J\nworld\n"}, "r1"
	want(t, check(t, m), "hello", "world", `\u{1b}`)
	m.press(keyEsc)
	m.press("?")
	want(t, check(t, m), "PgUp")
}

// Sessions and servers have a list of their own.
func TestLists(t *testing.T) {
	v := seen{path: "p", servers: []ownersock.Upstream{{Name: "notes", Type: "docker", State: "asleep\x1b[2J"}}}
	for n := range 100 {
		v.sessions = append(v.sessions, session.Info{Name: fmt.Sprint("s", n), Principal: "token:poke\x1b", Last: time.Now()})
	}
	m := at80x24(v)
	m.press("l")
	want(t, check(t, m), "s0", `token:poke\u{1b}`)
	for range 20 {
		m.press(keyPgDn)
		check(t, m)
	}
	want(t, check(t, m), "notes", "docker", "asleep")
	if m.press("l"); strings.Contains(check(t, m), "notes") {
		t.Error("the list stays")
	}
}

// Thousands of items, wide and hostile characters, and small terminals.
func TestPageCopes(t *testing.T) {
	v := seen{path: "p"}
	for n := range 10_000 {
		v.running = append(v.running, desk.Entry{ID: fmt.Sprint("r", n), State: "running\x1b[2J\u05d0", Principal: "token:\x1b[2J", Tool: "x",
			Command: strings.Repeat("日本\u202e\u200b\n", 100), Started: time.Now()})
	}
	v.waiting = []approval.Waiting{asks("w", strings.Repeat("日本語", 3000)+"\x1b[2J")}
	m := at80x24(v)
	for range 10 {
		m.press(keyDown)
		check(t, m)
	}
	begin := time.Now()
	check(t, m)
	t.Logf("a page of 10,000 items takes %v", time.Since(begin))
	m.at = "w"
	m.press(keyEnter)
	for range 60 {
		m.press(keyPgDn)
		check(t, m)
	}
	if !m.read {
		t.Error("the end was never shown")
	}
	for _, size := range [][2]int{{20, 8}, {200, 60}} {
		m.width, m.height = size[0], size[1]
		check(t, m)
	}
}

func TestKeys(t *testing.T) {
	got := strings.Join(split("a\x1b[A\x1b[6~é\r\x7f\x1b"), " ")
	if got != "a up pgdn é enter backspace esc" {
		t.Error(got)
	}
}

// The keys are shown whole on a terminal of 80 columns: the page cuts what is longer.
func TestKeysFit(t *testing.T) {
	for line := range strings.SplitSeq(keysHelp, "\n") {
		if terminal.Columns(line) > 80 {
			t.Errorf("%d columns: %s", terminal.Columns(line), line)
		}
	}
}
