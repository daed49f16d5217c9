package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

// swapped is a workspace in which d is a directory at one moment and a symbolic
// link out of the workspace at the next, thousands of times a second.
func swapped(t *testing.T) (w *files.Workspace, dir, outside string) {
	t.Helper()
	dir, w = tree(t, map[string]string{"d/f": "inside"})
	outside = t.TempDir()
	must(t, os.WriteFile(filepath.Join(outside, "f"), []byte("outside"), 0o644))
	must(t, os.Symlink(outside, filepath.Join(dir, "link")))
	stop := make(chan bool)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				if err := unix.Renameat2(unix.AT_FDCWD, filepath.Join(dir, "d"), unix.AT_FDCWD, filepath.Join(dir, "link"), unix.RENAME_EXCHANGE); err != nil {
					t.Errorf("swap: %v", err)
					return
				}
			}
		}
	})
	t.Cleanup(func() { close(stop); group.Wait() })
	return w, dir, outside
}

func TestSwapRaceReads(t *testing.T) {
	w, _, _ := swapped(t)
	inside, refused := 0, 0
	for range 10_000 {
		switch text, err := w.Read("d/f"); {
		case err != nil:
			refused++
		case text == "inside":
			inside++
		default:
			t.Fatalf("escaped: read %q", text)
		}
	}
	t.Logf("%d read inside, %d refused", inside, refused)
	for end := time.Now().Add(time.Minute); inside == 0 || refused == 0; {
		if _, err := w.Read("d/f"); err != nil {
			refused++
		} else {
			inside++
		}
		if time.Now().After(end) {
			t.Fatalf("%d read inside, %d refused: the race did not happen", inside, refused)
		}
	}
}

func TestSwapRaceWrites(t *testing.T) {
	w, _, outside := swapped(t)
	done, races := 0, 2000
	if os.Getenv("SALLYPORT_SOAK") != "" {
		races = 10_000
	}
	for i := range races {
		var err error
		if i%2 == 0 {
			_, err = w.Write("d/f", "inside", i%4 == 0)
		} else {
			_, err = w.Edit("d/f", false, func(old string) (string, error) {
				if strings.HasPrefix(old, "outside") {
					t.Error("escaped: an edit read outside")
				}
				return "inside", nil
			})
		}
		if err == nil {
			done++
		}
		entries, readErr := os.ReadDir(outside)
		must(t, readErr)
		data, readErr := os.ReadFile(filepath.Join(outside, "f"))
		must(t, readErr)
		if len(entries) != 1 || string(data) != "outside" {
			t.Fatalf("escaped: %v, %q", entries, data)
		}
	}
	t.Logf("%d written inside, %d refused", done, races-done)
}

// Looking before opening, as most do it, does escape.
func TestSwapRaceUnguarded(t *testing.T) {
	_, dir, _ := swapped(t)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
		path := filepath.Join(dir, "d/f")
		if real, err := filepath.EvalSymlinks(path); err != nil || !strings.HasPrefix(real, dir+"/") {
			continue
		}
		if data, err := os.ReadFile(path); err == nil && string(data) == "outside" {
			return
		}
	}
	t.Error("the unguarded reader never escaped: the other tests show nothing")
}
