package doctor

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

// ownersFolder is an installation with a record and a served socket, as the
// working directory.
func ownersFolder(t *testing.T) (file string) {
	t.Helper()
	t.Chdir(t.TempDir())
	file = ".sallyport/audit/sandboxd/audit.jsonl"
	l, err := audit.Open(audit.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	os.MkdirAll(".sallyport/owner", 0o700)
	os.WriteFile(".sallyport/owner/key", []byte(strings.Repeat("0a", 32)), 0o600)
	t.Cleanup(func() { l.Close() })
	serveOwner(t, "sandboxd", l)
	return file
}

// serveOwner serves the owner's socket of a process that records into l, or
// nowhere.
func serveOwner(t *testing.T, process string, l *audit.Log) {
	t.Helper()
	os.MkdirAll(".sallyport/run/"+process, 0o700)
	s, err := ownersock.Listen(".sallyport/run/"+process+"/owner.sock", ".sallyport/owner/key", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Desk, s.Process = desk.New(l, nil), process
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// What is the owner's: well, and each way in which it is not.
func TestOwnersFiles(t *testing.T) {
	good := edge(sandbox(t))
	for name, spoil := range map[string]func(t *testing.T, file string){
		"": func(*testing.T, string) {},
		"audit-broken": func(t *testing.T, file string) {
			raw, _ := os.ReadFile(file)
			os.WriteFile(file, []byte(strings.Replace(string(raw), "open", "shut", 1)), 0o600)
		},
		"audit-readable": func(t *testing.T, file string) { os.Chmod(filepath.Dir(file), 0o755) },
		"audit-off":      func(t *testing.T, file string) { serveOwner(t, "hub", nil) },
		"owner-key": func(t *testing.T, file string) {
			os.WriteFile(".sallyport/owner/key", []byte(strings.Repeat("0b", 32)), 0o600)
		},
		"owner-socket-open": func(t *testing.T, file string) {
			os.MkdirAll(".sallyport/run/hub", 0o700)
			l, err := net.Listen("unix", ".sallyport/run/hub/owner.sock")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					c.Write([]byte("ok\n"))
				}
			}()
		},
		"ask-unanswered": func(t *testing.T, file string) {
			os.Remove(".sallyport/run/sandboxd/owner.sock")
			os.WriteFile("traefik-dynamic.yml", []byte("# tools: [\"ask:a\"]\ntools: [\"ask:run_command\"]\n"), 0o644)
		},
	} {
		t.Run("case "+name, func(t *testing.T) {
			file := ownersFolder(t)
			spoil(t, file)
			r := examine(t, good)
			if name != "" && !r.has(name) {
				t.Errorf("not named:\n%s", r.text)
			}
			for _, l := range r.lines {
				if (l.Boundary == "audit" || l.Boundary == "owner") && name == "" && l.Verdict != OK {
					t.Errorf("false alarm: %+v", l)
				}
			}
		})
	}
}

// In a folder below the installation doctor says where it is to be started, also where it
// looks for the token first.
func TestBelowTheInstallation(t *testing.T) {
	ownersFolder(t)
	above, _ := os.Getwd()
	if err := os.Mkdir("docs", 0o700); err != nil {
		t.Fatal(err)
	}
	want := "if you mean the installation in " + above + ", start this there"
	if r := run(t, []string{"-json", "http://127.0.0.1:1/x"}); strings.Contains(r.text, want) {
		t.Errorf("in it: %s", r.text)
	}
	t.Chdir("docs")
	if r := run(t, []string{"-json", "http://127.0.0.1:1/x"}); !strings.Contains(r.text, want) {
		t.Errorf("below it: %s", r.text)
	}
}
