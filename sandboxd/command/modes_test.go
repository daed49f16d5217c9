package command_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/command"
)

// A key that a command opens to others, closes, or whose folder it opens or closes,
// has its mode again, which is reported. What the owner does, closing it further or
// putting another in its place, stays. Without the watch the same commands last.
func TestModesAreKept(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	for _, watched := range []bool{true, false} {
		dir := filepath.Join(t.TempDir(), "owner")
		key := filepath.Join(dir, "key")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(key, []byte("k"), 0o600); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		reports := 0
		if watched {
			m, err := command.KeepModes([]string{key, filepath.Join(dir, "missing")}, func(string, uint32) {
				mu.Lock()
				reports++
				mu.Unlock()
			})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
		}
		for i, line := range []string{"chmod 644 " + key, "chmod 000 " + key, "chmod 755 " + dir, "chmod 666 " + key + " && chmod 777 " + dir, "chmod 4600 " + key, "chmod 000 " + dir} {
			outputOf(t, r, "token:a", line)
			same := func() bool { return mode(key) == 0o600 && mode(dir) == 0o700 }
			if !watched {
				if i != 4 && same() { // set-user-ID is refused to commands
					t.Errorf("the twin: %s changed nothing", line)
				}
				os.Chmod(dir, 0o700)
				os.Chmod(key, 0o600)
				continue
			}
			for end := time.Now().Add(long); !same(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s: %v %v", line, mode(key), mode(dir))
				}
			}
		}
		if !watched {
			continue
		}
		mu.Lock()
		if reports < 5 {
			t.Errorf("%d changes were reported", reports)
		}
		mu.Unlock()
		if err := os.WriteFile(key+".new", nil, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(key+".new", key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(50 * time.Millisecond) // nothing comes: what would change it has had its time
		if got := mode(key); got != 0o640 {
			t.Errorf("the owner's new file became %v", got)
		}
	}
}

func mode(path string) os.FileMode {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Mode().Perm()
}

// A command opens no folder above a key to others, who could put another key, or
// another socket, in its place. What lets nobody else write stays as the owner wants it,
// and without the watch all of it lasts.
func TestFoldersAboveAreKept(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	for _, watched := range []bool{true, false} {
		top := filepath.Join(t.TempDir(), "sallyport")
		middle := filepath.Join(top, "run")
		key := filepath.Join(middle, "sandboxd", "key")
		if err := os.MkdirAll(filepath.Dir(key), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(key, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if watched {
			m, err := command.KeepModes([]string{key}, func(string, uint32) {})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
		}
		for _, c := range []struct {
			folder, to string
			now, kept  os.FileMode
		}{
			{top, "777", 0o777, 0o700}, {top, "o+w", 0o702, 0o700}, {top, "755", 0o755, 0o755}, {top, "g+w", 0o775, 0o755},
			{middle, "777", 0o777, 0o700}, {filepath.Dir(key), "777", 0o777, 0o700},
		} {
			want := c.now
			if watched {
				want = c.kept
			}
			outputOf(t, r, "token:a", "chmod "+c.to+" "+c.folder)
			for end := time.Now().Add(long); mode(c.folder) != want; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("watched %v: chmod %s %s: %04o, want %04o", watched, c.to, c.folder, mode(c.folder), want)
				}
			}
			if !watched && c.folder == top && c.to != "755" {
				os.Chmod(top, c.kept)
			}
		}
	}
}
