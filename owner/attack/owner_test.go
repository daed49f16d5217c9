package attack_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// The two attempts at the owner's things run for real in an installation: a socket that
// serves everybody and records or a key that a command can read are found. The twins
// are a socket that wants its key, and no files.
func TestOwnersThings(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{".sallyport/run/sandboxd", ".sallyport/audit/sandboxd", ".sallyport/owner"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	elsewhere := t.TempDir()
	s := held()
	s.run = func(command string) string {
		if !strings.Contains(command, "$INSTALLATION") {
			return "refused\n"
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = elsewhere // as a command in its workspace
		out, _ := cmd.Output()
		return string(out)
	}
	const files = "the records of calls and the owner's key"
	verdicts := func() (atSocket, atFiles string) {
		_, got, _ := attacked(t, s)
		for name, v := range got {
			if strings.HasPrefix(name, "the owner's and egress's sockets") {
				atSocket = v
			}
		}
		return atSocket, got[files]
	}
	k, err := keysocket.ParseKey([]byte(strings.Repeat("0a", 32)))
	if err != nil {
		t.Fatal(err)
	}
	l, err := keysocket.Listen(filepath.Join(".sallyport/run/sandboxd", "owner.sock"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- (&keysocket.Server{Sum: k.Sum(), Serve: func(context.Context, *net.UnixConn) {}}).Run(ctx, l)
	}()
	if a, f := verdicts(); a != "held" || f != "held" {
		t.Errorf("twins: %s %s", a, f)
	}
	cancel()
	<-done
	open, err := net.Listen("unix", filepath.Join(".sallyport/run/sandboxd", "owner.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	go func() {
		for {
			c, err := open.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "ok\n")
		}
	}()
	for _, file := range []string{".sallyport/audit/sandboxd/audit.jsonl", ".sallyport/owner/key"} {
		if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if a, f := verdicts(); a != "THROUGH" || f != "THROUGH" {
			t.Errorf("%s, and a socket for everybody: %s %s", file, a, f)
		}
		os.Remove(file)
	}
}
