package client

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What is not found is said with its whole path; an installation above is named,
// never taken. Without one it is not.
func TestHere(t *testing.T) {
	root := t.TempDir()
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	want := filepath.Join(below, ".sallyport/run")
	if got := Here(".sallyport/run"); !strings.HasPrefix(got, want) || strings.Contains(got, "installation in "+root) {
		t.Errorf("none above: %s", got)
	}
	if err := os.Mkdir(filepath.Join(root, ".sallyport"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := Here(".sallyport/run"); got != want+"; if you mean the installation in "+root+", start this there" {
		t.Errorf("one above: %s", got)
	}
	t.Chdir(root)
	if got := Here(".sallyport/run"); strings.Contains(got, "installation in "+root) {
		t.Errorf("in it: %s", got)
	}
}

// An installation that this account may not read is not taken for one that does not run.
func TestBarred(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := Barred(); err != nil {
		t.Errorf("none: %v", err)
	}
	if err := os.Mkdir(".sallyport", 0o700); err != nil || Barred() != nil {
		t.Errorf("one's own: %v, %v", err, Barred())
	}
	if os.Geteuid() == 0 {
		t.Skip("not by itself: root may read everything, and make test of an ordinary user runs it")
	}
	if err := os.Chmod(".sallyport", 0); err != nil {
		t.Fatal(err)
	}
	if err := Barred(); err == nil || !strings.Contains(err.Error(), "as the account that started the server") {
		t.Errorf("another's: %v", err)
	}
}

// A file that was named whole is only repeated.
func TestHereNamed(t *testing.T) {
	if got := Here("/nowhere/token"); got != "/nowhere/token" {
		t.Error(got)
	}
}
