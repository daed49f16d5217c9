package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func tree(t *testing.T, names ...string) string {
	t.Helper()
	base := t.TempDir()
	for _, name := range names {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

// A secret that a command could read by another name is refused with both names.
func TestApart(t *testing.T) {
	base := tree(t, "work/src/main.go", "secret", "work/inside")
	work, secret := filepath.Join(base, "work"), filepath.Join(base, "secret")
	if err := Apart("FILE", secret, work, "/does/not/exist"); err != nil {
		t.Errorf("outside: %v", err)
	}
	if err := Apart("FILE", filepath.Join(work, "inside"), work); err == nil || !strings.Contains(err.Error(), work) {
		t.Errorf("inside: %v", err)
	}
	link := filepath.Join(work, "src", "link")
	if err := os.Link(secret, link); err != nil {
		t.Fatal(err)
	}
	if err := Apart("FILE", secret, work); err == nil || !strings.Contains(err.Error(), link) || !strings.Contains(err.Error(), secret) {
		t.Errorf("a hard link inside: %v", err)
	}
	if err := os.Rename(link, filepath.Join(base, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := Apart("FILE", secret, work); err != nil {
		t.Errorf("a hard link elsewhere: %v", err)
	}
}

func TestBeside(t *testing.T) {
	base := tree(t, "a/clone/Makefile", "a/clone/workspace/x", "a/clone/plugin/x", "a/clones/x", "b/x")
	clone := filepath.Join(base, "a/clone")
	for name, ok := range map[string]bool{
		"a/clone/workspace": true, "a/clones": true, "b": true,
		"a": false, "a/clone": false, "a/clone/plugin": false, "a/../a": false, "": false,
	} {
		workspace := filepath.Join(base, name)
		err := Beside(workspace, clone)
		if ok != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
		if err != nil && (!strings.Contains(err.Error(), workspace) || !strings.Contains(err.Error(), clone)) {
			t.Errorf("%q: it does not name both paths: %v", name, err)
		}
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(clone, link); err != nil {
		t.Fatal(err)
	}
	if Beside(link, clone) == nil {
		t.Error("a link to the installation was served")
	}
}

func TestBesideInstallationOf(t *testing.T) {
	base := tree(t, "clone/.sallyport/edge/token", "clone/workspace/x", "clone/plugin/x", "other/x")
	token := filepath.Join(base, "clone/.sallyport/edge/token")
	for name, ok := range map[string]bool{"clone/workspace": true, "other": true, "clone": false, "clone/plugin": false, "": false} {
		if err := BesideInstallationOf(filepath.Join(base, name), token); ok != (err == nil) {
			t.Errorf("%q: %v", name, err)
		}
	}
}
