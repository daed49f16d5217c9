package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// add writes to the end of a file as a command does.
func add(t *testing.T, name, text string) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(text)
	must(t, err)
	must(t, f.Close())
}

// What a command writes while a file is edited or appended to is not lost: the change is made again from
// what is there now, and refused where that never ends.
func TestNothingIsLostMeanwhile(t *testing.T) {
	dir, w := tree(t, map[string]string{"edited": "one\n", "busy": "one\n", "appended": strings.Repeat("x", 60<<20)})
	path := func(name string) string { return filepath.Join(dir, name) }
	tries := 0
	edit := func(name string, until int) error {
		tries = 0
		_, err := w.Edit(name, false, func(old string) (string, error) {
			if tries++; tries <= until {
				add(t, path(name), "command\n")
			}
			return strings.Replace(old, "one", "two", 1), nil
		})
		return err
	}
	must(t, edit("edited", 2))
	if got, _ := os.ReadFile(path("edited")); string(got) != "two\ncommand\ncommand\n" || tries != 3 {
		t.Errorf("edited: %q after %d", got, tries)
	}
	if err := edit("busy", 1000); err == nil || !strings.Contains(err.Error(), "all the time") {
		t.Errorf("busy: %v", err)
	}
	if got, _ := os.ReadFile(path("busy")); string(got) != "one\n"+strings.Repeat("command\n", tries) {
		t.Errorf("busy: %q after %d", got, tries)
	}

	done := make(chan error, 1)
	go func() { _, err := w.Write("appended", "tool\n", true); done <- err }()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); { // its temporary file, long before its end
		if found, _ := filepath.Glob(path(".sandboxd-*")); len(found) > 0 {
			break
		}
	}
	add(t, path("appended"), "command\n")
	must(t, <-done)
	got, _ := os.ReadFile(path("appended"))
	if tail := string(got[60<<20:]); tail != "command\ntool\n" {
		t.Errorf("appended: %q", tail)
	}
	if found, _ := filepath.Glob(path(".sandboxd-*")); len(found) > 0 {
		t.Errorf("left: %v", found)
	}
}
