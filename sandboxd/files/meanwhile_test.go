package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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

	tail := "tool\ncommand\n"
	for try := 0; try < 20 && tail == "tool\ncommand\n"; try++ { // so where the command comes too late: nothing is lost
		must(t, os.Truncate(path("appended"), 60<<20))
		done, over := make(chan error, 1), false
		go func() { _, err := w.Write("appended", "tool\n", true); done <- err }()
		for found := []string(nil); len(found) == 0 && !over; { // its temporary file, long before its end
			found, _ = filepath.Glob(path(".sandboxd-*"))
			select {
			case err := <-done:
				must(t, err)
				over = true
			default:
			}
		}
		add(t, path("appended"), "command\n")
		if !over {
			must(t, <-done)
		}
		got, err := os.ReadFile(path("appended"))
		must(t, err)
		tail = string(got[60<<20:])
	}
	if tail != "command\ntool\n" {
		t.Errorf("appended: %q", tail)
	}
	if found, _ := filepath.Glob(path(".sandboxd-*")); len(found) > 0 {
		t.Errorf("left: %v", found)
	}
}
