package rig

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// SandboxdOptions says how `sandboxd` starts.
type SandboxdOptions struct {
	Workspace string   // default: an empty folder
	Env       []string // settings beside the address, the workspace and the token
	Wrap      []string // a command that starts it, given as its last argument
}

// Sandboxd is a running `sandboxd`.
type Sandboxd struct {
	*Process
	Addr      string // host:port
	URL       string // http://host:port, without the base path
	Workspace string
	Token     string // its own (backend) token
	TokenFile string
}

// StartSandboxd starts `sandboxd` on a free port and returns once its
// health endpoint answers.
func StartSandboxd(t testing.TB, o SandboxdOptions) *Sandboxd {
	t.Helper()
	s := &Sandboxd{Addr: FreeAddr(t), Workspace: o.Workspace}
	if s.Workspace == "" {
		s.Workspace = PublicDir(t)
	}
	s.URL = "http://" + s.Addr
	s.Token, s.TokenFile = NewToken(t)
	args := append(o.Wrap[:len(o.Wrap):len(o.Wrap)], Binary(t, "sandboxd"))
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "MCP_ADDR=" + s.Addr,
		"MCP_WORKSPACE=" + s.Workspace, "MCP_AUTH_TOKEN_FILE=" + s.TokenFile,
	}, o.Env...)
	s.Process = Start(t, cmd)
	Until(t, "sandboxd's health endpoint", func() bool { return Status(s.URL+"/healthz") == 200 }, s.Process)
	return s
}

// NewToken returns a fresh token and a file of mode 0600 that holds it.
func NewToken(t testing.TB) (token, file string) {
	t.Helper()
	token = rand.Text() + rand.Text()
	file = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return token, file
}

// PublicDir returns a folder that other users may enter; t.TempDir is private
// to the user who runs the test.
func PublicDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "sallyport-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
