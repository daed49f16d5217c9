package rig

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var update = flag.Bool("update", false, "write the generated parts of pages instead of comparing them")

// Section holds one part of a page, between its marks, to what a test found out:
// with -update it writes the part, else it compares.
func Section(t testing.TB, page, name, text string) {
	t.Helper()
	unlock := lockPage(t)
	defer unlock()
	path := filepath.Join(Root(t), filepath.FromSlash(page))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- end of "+name+" -->\n"
	head, rest, found := strings.Cut(string(data), begin)
	old, tail, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Errorf("%s has no part %q between its marks", page, name)
	case *update:
		if err := os.WriteFile(path, []byte(head+begin+text+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	case old != text:
		t.Errorf("%s, part %q, is not what this run found (go test -update writes it); now:\n%s", page, name, text)
	}
}

// lockPage keeps two packages that test at once from writing the same page.
func lockPage(t testing.TB) func() {
	t.Helper()
	f, err := os.Open(filepath.Join(Root(t), "docs"))
	if err != nil {
		t.Fatal(err)
	}
	if err := flock(f); err != nil {
		t.Fatal(err)
	}
	return func() { f.Close() }
}

func flock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
