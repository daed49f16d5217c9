package callaudit_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/callaudit"
)

func TestAuditFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	for _, tool := range []string{"one", "two\n"} {
		a, err := callaudit.Open(path, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(a.Ready(), a.Write(callaudit.Record{Tool: tool, Verdict: "ok"}), a.Close()); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines, want 2: %s", len(lines), data)
	}
	var last map[string]any
	if err := json.Unmarshal([]byte(lines[1]), &last); err != nil || last["tool"] != "two\n" {
		t.Errorf("%v: %s", err, lines[1])
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := callaudit.Open(filepath.Join(path, "x"), io.Discard); err == nil {
		t.Error("a file that cannot be opened is accepted")
	}
	var b strings.Builder
	if a, err := callaudit.Open("-", &b); err != nil || a.Write(callaudit.Record{}) != nil || b.Len() == 0 {
		t.Errorf("-: %v %q", err, b.String())
	}
	if a, err := callaudit.Open("", &b); err != nil || errors.Join(a.Write(callaudit.Record{}), a.Ready(), a.Close()) != nil {
		t.Errorf("none: %v", err)
	}
}

// full is a disk without space, until it has some.
type full struct{ err error }

func (f *full) Write(p []byte) (int, error) { return len(p), f.err }

func TestAuditThatCannotBeWritten(t *testing.T) {
	disk := &full{err: errors.New("no space")}
	a := callaudit.New(disk)
	if err := a.Ready(); err != nil {
		t.Errorf("before the first record: %v", err)
	}
	if err := a.Write(callaudit.Record{}); err == nil {
		t.Error("the failed write is not reported")
	}
	if err := a.Ready(); err == nil {
		t.Error("ready while nothing can be written")
	}
	disk.err = nil
	if err := a.Ready(); err != nil {
		t.Errorf("after there is space: %v", err)
	}
}
