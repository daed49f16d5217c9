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
