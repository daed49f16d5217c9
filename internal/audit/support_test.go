package audit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/audit"
)

func open(t *testing.T, o audit.Options) *audit.Log {
	t.Helper()
	l, err := audit.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// call records one whole call.
func call(t *testing.T, l *audit.Log, n int) {
	t.Helper()
	p, err := l.Begin(audit.Call{Request: fmt.Sprint("r", n), Principal: "token:poke", Session: "s1", Tool: "run_command",
		Arguments: fmt.Appendf(nil, `{"command":"echo %d"}`, n)})
	if err != nil {
		t.Fatal(err)
	}
	p.End(audit.Outcome{Verdict: "ok", ResultBytes: n})
}

// chain writes a closed chain of at least this many lines and returns its file.
func chain(t *testing.T, lines int, o audit.Options) string {
	t.Helper()
	o.File = filepath.Join(t.TempDir(), "audit", "audit.jsonl")
	l := open(t, o)
	for n := range lines / 2 {
		call(t, l, n)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return o.File
}

func lines(t *testing.T, file string) [][]byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := bytes.SplitAfter(raw, []byte("\n"))
	return all[:len(all)-1]
}

func put(t *testing.T, file string, lines [][]byte) {
	t.Helper()
	if err := os.WriteFile(file, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

func verify(t *testing.T, file string, o audit.VerifyOptions) audit.Report {
	t.Helper()
	r, err := audit.Verify(file, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
