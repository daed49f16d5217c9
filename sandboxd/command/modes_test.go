package command_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/keysocket"
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

// A command lets no other account in by an access list that the mode does not show,
// since the group has a part in it already. One that the owner made before stays, and
// without the watch the same command's list lasts.
func TestAccessListsAreKept(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3 here, which writes access lists")
	}
	r, _, _ := newRunner(t, 4096)
	list := func(account uint32) []byte { // acl(5): version 2, then tag, rights and account of each entry
		b := binary.LittleEndian.AppendUint32(nil, 2)
		for _, e := range [][3]uint32{{1, 6, 1<<32 - 1}, {2, 6, account}, {4, 6, 1<<32 - 1}, {16, 6, 1<<32 - 1}, {32, 0, 1<<32 - 1}} {
			b = binary.LittleEndian.AppendUint16(binary.LittleEndian.AppendUint16(b, uint16(e[0])), uint16(e[1]))
			b = binary.LittleEndian.AppendUint32(b, e[2])
		}
		return b
	}
	const name = "system.posix_acl_access"
	for _, c := range []struct {
		watched bool
		before  []byte
	}{{true, nil}, {true, list(7)}, {false, nil}} {
		key := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(key, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		os.Chmod(key, 0o660)
		if c.before != nil {
			if err := unix.Setxattr(key, name, c.before, 0); err != nil {
				t.Skip("no access lists on this file system:", err)
			}
		}
		said := make(chan string, 100)
		if c.watched {
			m, err := command.KeepModes([]string{key}, func(path string, _ uint32) { said <- path })
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
		}
		out := outputOf(t, r, "token:a", fmt.Sprintf("python3 -c \"import os; os.setxattr('%s', '%s', bytes.fromhex('%x'))\"", key, name, list(65534)))
		if c.watched {
			select {
			case <-said:
			case <-time.After(long):
				t.Fatal("nothing was changed back", out)
			}
		}
		want := c.before
		if !c.watched {
			want = list(65534)
		}
		got := make([]byte, 200)
		size, _ := unix.Getxattr(key, name, got)
		if string(got[:max(0, size)]) != string(want) || mode(key) != 0o660 {
			t.Errorf("watched %v: the list is %x, want %x; mode %v", c.watched, got[:max(0, size)], want, mode(key))
		}
	}
}

// A socket that is made later, as the owner's is, is kept as it was made: a command
// that closes it would keep the owner out. Without the watch it stays closed.
func TestSocketsAreKept(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	for _, watched := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "s")
		said := make(chan string, 100)
		var m *command.Modes
		if watched {
			closed := t.TempDir() // as the folder of root's key is, which is left out
			if err := os.Chmod(closed, 0); err != nil {
				t.Fatal(err)
			}
			var err error
			m, err = command.KeepModes([]string{filepath.Join(closed, "key"), path}, func(path string, _ uint32) { said <- path })
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
		}
		l, err := keysocket.Listen(path, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if watched {
			m.Look() // it is seen before any command runs
		}
		outputOf(t, r, "token:a", "chmod 000 "+path)
		if !watched {
			if mode(path) != 0 {
				t.Errorf("the twin: %v", mode(path))
			}
			continue
		}
		select {
		case <-said:
		case <-time.After(long):
			t.Fatal("nothing was changed back")
		}
		if mode(path) != 0o600 {
			t.Errorf("the socket has %v", mode(path))
		}
	}
}
