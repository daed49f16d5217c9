package command

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Modes keeps the modes of files that nobody else may open, and of their folders.
// Where commands have no mounts of their own, one that runs as the owner of such
// files can change their modes, though not open them: no Landlock right covers
// chmod(2). What it changes is changed back at once.
type Modes struct {
	changed func(path string, mode uint32)
	events  *os.File // of inotify

	mu      sync.Mutex
	folders map[string]*folder // by path
	gone    sync.WaitGroup
}

// folder is held open: a command may close it to its owner too.
type folder struct {
	at   *os.File
	path string
	kept map[string]kept // by name; "" is the folder itself
}

type kept struct {
	inode uint64
	mode  uint32
}

// KeepModes keeps those of paths that exist and that this account owns, as they
// are now. A file that its owner replaces, or closes further to others, stays so.
// Each change that is undone is reported to changed.
func KeepModes(paths []string, changed func(path string, mode uint32)) (*Modes, error) {
	m := &Modes{changed: changed, folders: map[string]*folder{}}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("inotify: %w", err)
	}
	m.events = os.NewFile(uintptr(fd), "inotify")
	for _, path := range paths {
		if err := m.keep(path); err != nil {
			m.Close()
			return nil, err
		}
	}
	m.gone.Go(m.watch)
	return m, nil
}

func (m *Modes) keep(path string) error {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil // not there
	}
	dir, name := filepath.Split(real)
	f := m.folders[dir]
	if f == nil {
		at, err := os.OpenFile(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		f = &folder{at: at, path: dir, kept: map[string]kept{}}
		m.folders[dir] = f
		f.look("", m.changed)
		if _, err := unix.InotifyAddWatch(int(m.events.Fd()), dir,
			unix.IN_ATTRIB|unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
			return fmt.Errorf("inotify on %s: %w", dir, err)
		}
	}
	f.look(name, m.changed)
	return nil
}

// watch looks at everything whenever anything has changed.
func (m *Modes) watch() {
	buf := make([]byte, 4096)
	for {
		if _, err := m.events.Read(buf); err != nil {
			return
		}
		m.Look()
	}
}

// Look restores what has been changed.
func (m *Modes) Look() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.folders {
		for name := range f.kept {
			f.look(name, m.changed)
		}
	}
}

// look compares one mode with the one that is kept, and restores it.
func (f *folder) look(name string, changed func(string, uint32)) {
	file, err := f.at, error(nil)
	if name != "" {
		var fd int
		fd, err = unix.Openat(int(f.at.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		file = os.NewFile(uintptr(fd), name)
	}
	var stat unix.Stat_t
	if err != nil || unix.Fstat(int(file.Fd()), &stat) != nil {
		return // its owner has removed it
	}
	if name != "" {
		defer file.Close()
	}
	was, known := f.kept[name]
	now := stat.Mode & 0o7777
	closer := now&^was.mode == 0 && now&0o700 == was.mode&0o700
	switch {
	case int(stat.Uid) != os.Geteuid() || stat.Mode&unix.S_IFMT == unix.S_IFLNK:
	case !known || was.inode != stat.Ino || closer:
		f.kept[name] = kept{stat.Ino, now}
	default:
		// O_PATH does not allow fchmod(2).
		if unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", file.Fd()), was.mode) == nil {
			changed(filepath.Join(f.path, name), now)
		}
	}
}

// Close looks a last time.
func (m *Modes) Close() error {
	m.Look()
	err := m.events.Close()
	m.gone.Wait()
	for _, f := range m.folders {
		f.at.Close()
	}
	return err
}
