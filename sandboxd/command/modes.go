package command

import (
	"errors"
	"fmt"
	"io/fs"
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
	at    *os.File
	path  string
	kept  map[string]kept // by name; "" is the folder itself
	above bool            // of it only: nobody else may write in it and put others in the place of what is below
}

type kept struct {
	inode     uint64
	mode, gid uint32
	acl       string // of POSIX; where others have a part in it already, the mode does not show one more
}

// KeepModes keeps those of paths that this account owns, as they are now or once
// they are there, and of their folders. A file that its owner replaces, or closes further
// to others, stays so. In the folders above, nobody else comes to write. Each change
// that is undone is reported to changed.
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
	if err != nil { // not there yet
		above, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return nil
		}
		real = filepath.Join(above, filepath.Base(path))
	}
	if real, err = filepath.Abs(real); err != nil {
		return err
	}
	dir, name := filepath.Split(real)
	f, err := m.folder(filepath.Clean(dir), false)
	if errors.Is(err, fs.ErrPermission) {
		return nil // another's, as root's where root was given up
	}
	if err != nil {
		return err
	}
	if f.look(name, m.changed); f.kept[name].inode == 0 {
		f.kept[name] = kept{} // until it is there
	}
	for above := f.path; above != "/"; {
		above = filepath.Dir(above)
		var stat unix.Stat_t
		if unix.Stat(above, &stat) != nil || int(stat.Uid) != os.Geteuid() {
			continue // no command can change it
		}
		if _, err := m.folder(above, true); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// folder begins to watch one. What is kept of it for itself stays so.
func (m *Modes) folder(path string, above bool) (*folder, error) {
	f := m.folders[path]
	if f != nil && (!f.above || above) {
		return f, nil
	}
	if f == nil {
		at, err := os.OpenFile(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return nil, err
		}
		f = &folder{at: at, path: path, kept: map[string]kept{}}
		m.folders[path] = f
		f.look("", m.changed)
	}
	events := uint32(unix.IN_ATTRIB | unix.IN_ONLYDIR)
	if f.above = above; !above {
		events |= unix.IN_CREATE | unix.IN_MOVED_TO
	}
	if _, err := unix.InotifyAddWatch(int(m.events.Fd()), path, events); err != nil {
		return nil, fmt.Errorf("inotify on %s: %w", path, err)
	}
	return f, nil
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
	path := fmt.Sprintf("/proc/self/fd/%d", file.Fd()) // O_PATH does not allow fchmod(2)
	now := kept{stat.Ino, stat.Mode & 0o7777, stat.Gid, accessList(path)}
	closer := now.mode&^was.mode == 0 && now.mode&0o700 == was.mode&0o700
	if f.above {
		closer = now.mode&^was.mode&0o022 == 0 && was.mode&^now.mode&unix.S_ISVTX == 0
	}
	closer = closer && now.gid == was.gid && (now.acl == was.acl || now.acl == "")
	switch {
	case int(stat.Uid) != os.Geteuid() || stat.Mode&unix.S_IFMT == unix.S_IFLNK:
	case !known || was.inode != stat.Ino || closer:
		f.kept[name] = now
	case was.restore(path, now):
		changed(filepath.Join(f.path, name), now.mode)
	}
}

// aclName is the attribute that holds a file's access list (acl(5)).
const aclName = "system.posix_acl_access"

// accessList is that of a file; empty where it has none but its mode.
func accessList(path string) string {
	size, err := unix.Getxattr(path, aclName, nil)
	if err != nil || size <= 0 {
		return ""
	}
	list := make([]byte, size)
	if size, err = unix.Getxattr(path, aclName, list); err != nil {
		return "?" // it changes just now
	}
	return string(list[:size])
}

// restore reports whether the file at path is as it was.
func (was kept) restore(path string, now kept) bool {
	var err error
	switch {
	case now.acl == was.acl:
	case was.acl == "":
		err = unix.Removexattr(path, aclName)
	default:
		err = unix.Setxattr(path, aclName, []byte(was.acl), 0)
	}
	if err == nil && now.gid != was.gid {
		err = unix.Chown(path, -1, int(was.gid))
	}
	return err == nil && unix.Chmod(path, was.mode) == nil
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
