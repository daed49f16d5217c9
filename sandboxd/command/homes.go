package command

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// The bounds of all private directories together: whoever was away longest goes.
const (
	maxHomes   = 64
	maxBytes   = 8 << 30     // and three quarters of their file system
	measureAge = time.Minute // between two looks at the size
)

// parts are what a private directory holds; the environment names them.
var parts = []string{"home", "tmp", "go-cache", "go"}

// Homes are the private directories of persons, one each: HOME, TMPDIR and
// caches. A person is a token's name, or an OAuth subject whatever the grant, so
// nobody's start-up files, aliases and caches are read by another's commands.
// It is safe for concurrent use.
type Homes struct {
	base string

	mu       sync.Mutex
	homes    map[string]*home // by directory name
	measured time.Time
	closed   bool
	work     sync.WaitGroup // what is measured and removed
}

type home struct {
	users int
	last  time.Time
	bytes int64
}

// OpenHomes keeps private directories inside base, which no command may reach
// as a whole. What is there from before is kept.
func OpenHomes(base string) (*Homes, error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return nil, err
	}
	h := &Homes{base: base, homes: map[string]*home{}}
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case err != nil || !e.IsDir():
		case strings.HasPrefix(e.Name(), "."):
			h.begin(func() { RemoveTree(filepath.Join(base, e.Name())) })
		default:
			h.homes[e.Name()] = &home{last: info.ModTime()}
		}
	}
	return h, nil
}

// Person is whom a principal's private directory belongs to: the token's name,
// or the subject without the grant (oauth:SUB#GRANT).
func Person(principal string) string {
	person, _, _ := strings.Cut(principal, "#")
	return cmp.Or(person, "local")
}

// dirName makes one path component of a person, differently for different ones.
// Letters, digits, "-", "." and "_" alone: programs read "%3A" in a file: URL as
// ":", "%" in a Makefile as a pattern, and "@" in a git+file: URL as a revision.
func dirName(person string) string {
	var b strings.Builder
	for _, c := range []byte(person) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' && b.Len() > 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "_%02x", c)
		}
	}
	return b.String()
}

// enter opens a person's directory, makes what is missing in it and restores
// what commands took away from it, which the notices say. It stays until leave.
func (h *Homes) enter(person string) (dir string, notices []string, leave func(), err error) {
	name := dirName(person)
	if len(name) > 250 {
		return "", nil, nil, errors.New("the principal's name is too long for a directory")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	mine := h.homes[name]
	if mine == nil {
		if len(h.homes) >= maxHomes && !h.evict("") {
			return "", nil, nil, errors.New("too many principals run commands at once: try again later")
		}
		mine = &home{}
		h.homes[name] = mine
	}
	dir = filepath.Join(h.base, name)
	restoreMode(h.base)
	notices, err = furnish(dir)
	if err != nil {
		return "", nil, nil, fmt.Errorf("your private directory cannot be used: %w", err)
	}
	mine.users++
	mine.last = time.Now()
	return dir, notices, sync.OnceFunc(func() { h.leave(mine) }), nil
}

// restoreMode closes the directory of all to others, and opens it to its account:
// where commands have no mounts of their own, one of them may have changed it
// for everybody.
func restoreMode(base string) {
	if info, err := os.Lstat(base); err == nil && info.IsDir() && info.Mode().Perm() != 0o700 {
		_ = os.Chmod(base, 0o700) // what cannot be restored fails in furnish, with an error message
	}
}

func (h *Homes) leave(mine *home) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mine.users--
	mine.last = time.Now()
	if mine.users == 0 && time.Since(h.measured) > measureAge {
		h.measured = time.Now()
		h.begin(h.bound)
	}
}

// begin does work that Close waits for. Commands may end after Close: what is to be
// removed then waits for the next OpenHomes. h is locked.
func (h *Homes) begin(work func()) {
	if !h.closed {
		h.work.Go(work)
	}
}

// Close waits for what is being measured or removed; nothing begins after it.
func (h *Homes) Close() error {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.work.Wait()
	return nil
}

// furnish makes a private directory whole. The directory itself stands where no
// command may write, so its path is safe; what is in it may be anything by now.
func furnish(dir string) (notices []string, err error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	missing, err := procfs.OpenToOwner(dir)
	if err != nil {
		return nil, err
	}
	if missing {
		notices = append(notices, "The directory that holds HOME and TMPDIR was closed; it was opened again.")
	}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() { // another account's work, while the base was open
		return nil, cmp.Or(err, errors.New("it is not a directory: remove it"))
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, name := range parts {
		if line := furnishPart(root, name); line != "" {
			notices = append(notices, line)
		}
	}
	return notices, nil
}

func furnishPart(root *os.Root, name string) (notice string) {
	info, err := root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = errors.Join(root.Remove(name), root.Mkdir(name, 0o700))
		notice = fmt.Sprintf("%s was not a directory any more; it was made anew.", variable(name))
	} else if err == nil && info.Mode().Perm()&0o700 != 0o700 {
		err = root.Chmod(name, 0o700)
		notice = fmt.Sprintf("%s was closed (mode %04o); it was opened again.", variable(name), info.Mode().Perm())
	} else if errors.Is(err, fs.ErrNotExist) {
		err = root.Mkdir(name, 0o700)
	}
	if err != nil {
		return fmt.Sprintf("%s cannot be used (%v): programs that need it fail.", variable(name), err)
	}
	return notice
}

// variable is how a command names a part.
func variable(part string) string {
	return map[string]string{"home": "HOME", "tmp": "TMPDIR", "go-cache": "GOCACHE", "go": "GOPATH"}[part]
}

// bound measures all directories and removes the longest unused ones while they
// are too large together; of one that is too large alone, its caches.
func (h *Homes) bound() {
	h.mu.Lock()
	names := make([]string, 0, len(h.homes))
	for name := range h.homes {
		names = append(names, name)
	}
	h.mu.Unlock()
	sizes := map[string]int64{}
	for _, name := range names {
		sizes[name] = size(filepath.Join(h.base, name), maxLevels)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, bytes := range sizes {
		if mine := h.homes[name]; mine != nil {
			mine.bytes = bytes
		}
	}
	newest := h.newest()
	for h.bytes() > h.most() && h.evict(newest) {
	}
	if mine := h.homes[newest]; mine != nil && mine.users == 0 && h.bytes() > h.most() {
		for _, name := range []string{"go-cache", "tmp"} {
			h.discard(filepath.Join(newest, name))
		}
	}
}

// most is how many bytes all directories may have. h is locked.
func (h *Homes) most() int64 {
	var stat unix.Statfs_t
	if unix.Statfs(h.base, &stat) == nil && stat.Blocks > 0 {
		return min(maxBytes, int64(stat.Blocks)*stat.Bsize/4*3)
	}
	return maxBytes
}

func (h *Homes) bytes() (sum int64) {
	for _, mine := range h.homes {
		sum += mine.bytes
	}
	return sum
}

// newest is the directory used last.
func (h *Homes) newest() (newest string) {
	var last time.Time
	for name, mine := range h.homes {
		if newest == "" || mine.last.After(last) {
			newest, last = name, mine.last
		}
	}
	return newest
}

// evict removes the longest unused directory of nobody who runs a command, but
// not the one to keep. h is locked.
func (h *Homes) evict(keep string) bool {
	var idle []string
	for name, mine := range h.homes {
		if mine.users == 0 && name != keep {
			idle = append(idle, name)
		}
	}
	if len(idle) == 0 {
		return false
	}
	oldest := slices.MinFunc(idle, func(a, b string) int { return h.homes[a].last.Compare(h.homes[b].last) })
	h.discard(oldest)
	delete(h.homes, oldest)
	return true
}

// discard moves something out of the way and removes it meanwhile.
func (h *Homes) discard(name string) {
	trash, err := os.MkdirTemp(h.base, ".gone-")
	if err != nil {
		return
	}
	_ = os.Rename(filepath.Join(h.base, name), filepath.Join(trash, "x"))
	h.begin(func() { RemoveTree(trash) })
}
