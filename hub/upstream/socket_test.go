package upstream_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/hub/upstream"
)

// A server whose folder holds its socket cannot lead the hub to another socket.
func TestSocketIsNoLink(t *testing.T) {
	dir := t.TempDir()
	victim, own := filepath.Join(dir, "proxy.sock"), filepath.Join(dir, "mcp.sock")
	l, err := net.Listen("unix", victim)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() error {
		c, err := upstream.Unix(own)(t.Context())
		if err == nil {
			c.Close()
		}
		return err
	}
	for name, put := range map[string]func() error{
		"a link": func() error { return os.Symlink(victim, own) }, "no socket": func() error { return os.WriteFile(own, nil, 0o666) },
		"no such file": func() error { return nil },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		if err := dial(); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), own) {
			t.Errorf("%s: %v", name, err)
		}
		os.Remove(own)
	}
	if c, err := net.Dial("unix", victim); err != nil {
		t.Errorf("twin: the socket behind the link: %v", err)
	} else {
		c.Close()
	}
	if err := os.Rename(victim, own); err != nil {
		t.Fatal(err)
	}
	if err := dial(); err != nil {
		t.Errorf("twin: the socket itself: %v", err)
	}
}

// Nor can it with a folder of its own above the socket.
func TestSocketsFolderIsNoLink(t *testing.T) {
	dir := t.TempDir()
	others, own := filepath.Join(dir, "others"), filepath.Join(dir, "own")
	for _, folder := range []string{others, own} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l, err := net.Listen("unix", filepath.Join(others, "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Symlink(others, filepath.Join(own, "sub")); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(own, "sub", "s")
	if c, err := upstream.Unix(path)(t.Context()); err == nil || !strings.Contains(err.Error(), "a folder above it is a link") {
		t.Errorf("through a link: %v, %v", c, err)
	}
	if c, err := net.Dial("unix", path); err != nil {
		t.Errorf("twin: the socket behind the link: %v", err)
	} else {
		c.Close()
	}
	os.Remove(filepath.Join(own, "sub"))
	if err := os.Rename(others, filepath.Join(own, "sub")); err != nil {
		t.Fatal(err)
	}
	if c, err := upstream.Unix(path)(t.Context()); err != nil {
		t.Errorf("twin: the folder itself: %v", err)
	} else {
		c.Close()
	}
}
