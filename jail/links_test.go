package jail_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sallyport-dev/sallyport/jail"
)

// A link of /etc opens the one public file behind it, nothing else.
func TestLinksOfEtc(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	etc := filepath.Join(base, "etc")
	for name, mode := range map[string]os.FileMode{"run/stub-resolv.conf": 0o644, "run/hosts": 0o644, "secret": 0o600, "etc/group": 0o644} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"resolv.conf": "../run/stub-resolv.conf", "hosts": filepath.Join(base, "run/hosts"), "localtime": "../secret", "passwd": "../run", "timezone": "../gone"} {
		if err := os.Symlink(target, filepath.Join(etc, link)); err != nil {
			t.Fatal(err)
		}
	}
	cfg := jail.Config{Mode: jail.Full, Network: jail.None, Readable: []string{etc}}
	want := []string{etc, filepath.Join(base, "run/hosts")}
	if got := jail.WithLinks(cfg, etc).Readable; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	cfg.Network = jail.Container
	if got := jail.WithLinks(cfg, etc).Readable; !slices.Contains(got, filepath.Join(base, "run/stub-resolv.conf")) || len(got) != 3 {
		t.Errorf("with a network: %q", got)
	}
}
