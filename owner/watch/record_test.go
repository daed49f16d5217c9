package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
)

// chain writes n calls of a process below .sallyport/audit and leaves it open.
func chain(t *testing.T, process string, n int) *audit.Log {
	t.Helper()
	l, err := audit.Open(audit.Options{File: filepath.Join(".sallyport/audit", process, "audit.jsonl"), RotateBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	call(t, l, n)
	return l
}

func call(t *testing.T, l *audit.Log, n int) {
	t.Helper()
	for i := range n {
		p, err := l.Begin(audit.Call{Principal: "token:po\u202eke\x1b[2J\r", Tool: fmt.Sprint("tool", i, "\u200b\t日本"), Server: "notes"})
		if err != nil {
			t.Fatal(err)
		}
		p.End(audit.Outcome{Verdict: "ok"})
	}
}

// The newest records of all processes stand below what waits and runs; "r" shows
// more of them. 10,000 lines are read at once, and hostile text is made visible.
func TestRecords(t *testing.T) {
	t.Chdir(t.TempDir())
	l := chain(t, "sandboxd", 5000)
	chain(t, "egress", 1)
	if err := os.Mkdir(".sallyport/audit/login", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(".sallyport/audit/login/audit.jsonl", 0o700); err != nil { // cannot be read
		t.Fatal(err)
	}
	begin := time.Now()
	past := records(t.Context())
	m := at80x24(seen{path: "x/sandboxd/s", waiting: []approval.Waiting{asks("w", "ls")}, running: []desk.Entry{{ID: "r1", State: "running"}}})
	m.remember(<-past)
	t.Logf("10,000 lines are on the page after %v", time.Since(begin))
	want(t, check(t, m), "WAITS", "newest records", "egress", `\u{200b}`, "login: the record cannot be read")
	m.press("r")
	page := check(t, m)
	want(t, page, "10001 ok", `\u{202e}`, "token:po", "notes/tool4")
	if strings.Contains(page, "WAITS") {
		t.Error("the calls are still shown")
	}
	for _, k := range []string{"s", "S", "d", "a", keyEnter} {
		if a := m.press(k); a.request.Op != "" || m.open || m.prompt {
			t.Errorf("%q means a call that is not on the screen: %+v", k, a)
		}
	}
	for range 5 {
		m.press(keyPgUp)
	}
	before := check(t, m)
	call(t, l, 3)
	m.remember(<-past)
	// The last line tells how much lies below, which has grown.
	if after := check(t, m); before[:strings.LastIndex(before, "\n")] != after[:strings.LastIndex(after, "\n")] {
		t.Errorf("what is being read has moved:\n%s\n%s", before, after)
	}
	for range 2 * maxRecords {
		m.press(keyUp)
	}
	check(t, m)
	m.press("r")
	want(t, check(t, m), "WAITS")
	if a := m.press("d"); !m.prompt {
		t.Errorf("twin: back on the calls, d denies: %+v", a)
	}
}

// Without any record the page says so.
func TestNoRecords(t *testing.T) {
	t.Chdir(t.TempDir())
	m := at80x24(seen{path: "x/sandboxd/s"})
	m.remember(<-records(t.Context()))
	want(t, check(t, m), "Nothing runs", "there are no records")
}

// A clock that is set back does not change the order of a process's records.
func TestClockSetBack(t *testing.T) {
	m := &model{width: 80, height: 24}
	noon := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	list := ordered("sandboxd", []audit.Record{{Seq: 1, Time: noon}, {Seq: 2, Time: noon.Add(-time.Hour)}, {Seq: 3, Time: noon.Add(time.Second)}})
	list = append(list, ordered("egress", []audit.Record{{Seq: 7, Time: noon.Add(-time.Minute)}})...)
	m.remember(merged(list))
	got := ""
	for _, p := range m.records {
		got += fmt.Sprint(p.record.Seq)
	}
	if got != "7123" {
		t.Error(got)
	}
}
