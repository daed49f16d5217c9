package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// What lies beside FILE.
const (
	keySuffix    = ".key"         // the private key, 0600
	pubSuffix    = ".pub"         // the public key
	pointsSuffix = ".checkpoints" // signed checkpoints
	lockSuffix   = ".lock"        // held by the writer
)

// anew ends errors of a chain that cannot go on.
const anew = "look with \"sallyport audit verify\", and move the whole folder aside to begin a new chain"

// How often a lock that is held is tried again, and after what time: for an instant Held
// has it, or a child of the writer before, between fork and exec.
const (
	lockTries     = 100
	tryAgainAfter = 10 * time.Millisecond
)

// maxLine bounds a line in bytes: arguments of 256 KiB, masked, and names.
const maxLine = 1 << 20

// Open opens or begins the chain of o.File, drops a torn last line, and writes
// an open record and a checkpoint. It refuses a file that another process
// writes, and one that is shorter than its last checkpoint says.
func Open(o Options) (*Log, error) {
	o = o.withDefaults()
	if o.File == "" {
		return nil, nil
	}
	l := &Log{opts: o, mask: newMasker(o.Secrets), wake: make(chan struct{}, 1), done: make(chan struct{})}
	var err error
	if o.File == "-" {
		l.sign, err = newSigner()
	} else {
		err = l.openFolder()
	}
	if err == nil {
		err = l.start()
	}
	if err != nil {
		l.closeFiles()
		return nil, fmt.Errorf("audit file %q: %w", o.File, err)
	}
	return l, nil
}

func (l *Log) openFolder() (err error) {
	folder := filepath.Dir(l.opts.File)
	l.name = filepath.Base(l.opts.File)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	if _, err := procfs.OpenToOwner(folder); err != nil {
		return err
	}
	if l.dir, err = os.OpenRoot(folder); err != nil {
		return err
	}
	if l.folder, err = l.dir.Open("."); err != nil {
		return err
	}
	if err := errors.Join(l.onlyOurs(), l.ownFolder()); err != nil {
		return err
	}
	if l.lock, err = l.create(lockSuffix, os.O_RDWR); err != nil {
		return err
	}
	for try := 0; syscall.Flock(int(l.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil; try++ {
		if try == lockTries {
			return errors.New("another process writes this chain: end it, or give each process a file of its own")
		}
		time.Sleep(tryAgainAfter)
	}
	return l.openKey()
}

// Held says whether a process writes the chain in file. It is false where that
// cannot be told.
func Held(file string) bool {
	lock, err := os.OpenFile(file+lockSuffix, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer lock.Close() // which gives the lock back
	return errors.Is(syscall.Flock(int(lock.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// ownFolder sees to it that nobody else can look into the folder. A command of
// the same account can change its mode, though not open it; so the mode is set
// again here, at each rotation and at each checkpoint.
func (l *Log) ownFolder() error {
	info, err := l.folder.Stat()
	if err != nil {
		return err
	}
	if l.opts.UID != 0 && os.Geteuid() == 0 {
		if err := l.folder.Chown(l.opts.UID, l.opts.GID); err != nil {
			return err
		}
	}
	if info.Mode().Perm() == 0o700 {
		return nil
	}
	if err := l.folder.Chmod(0o700); err != nil {
		return fmt.Errorf("its folder is not ours: %w; give it a folder of its own", err)
	}
	return nil
}

// onlyOurs refuses a folder that holds other things, which would be shut to
// everybody else, and sets the modes of what is in it again: closed segments too
// must be there to be read and pruned.
func (l *Log) onlyOurs() error {
	names, err := fs.ReadDir(l.dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range names {
		if e.Name() != l.name && !strings.HasPrefix(e.Name(), l.name+".") {
			return fmt.Errorf("its folder also holds %q: give the audit a folder of its own", e.Name())
		}
		l.ownFile(e.Name())
	}
	return nil
}

// ownFile sets the mode of a file in the folder again. Of one that is not ours, what
// comes after fails.
func (l *Log) ownFile(name string) {
	if info, err := l.dir.Lstat(name); err == nil && info.Mode().IsRegular() && info.Mode().Perm() != 0o600 {
		_ = l.dir.Chmod(name, 0o600)
	}
}

// create opens the file with this suffix for us alone, and makes it if need be.
func (l *Log) create(suffix string, flags int) (*os.File, error) {
	if l.dir == nil {
		return nil, nil
	}
	name := l.name + suffix
	if info, err := l.dir.Lstat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	l.ownFile(name)
	f, err := l.dir.OpenFile(name, flags|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err == nil && l.opts.UID != 0 && os.Geteuid() == 0 {
		err = f.Chown(l.opts.UID, l.opts.GID)
	}
	return f, err
}

// openKey reads the key, or makes it for a new chain. A chain that has lost
// its key cannot go on: what came after would be signed by somebody else.
func (l *Log) openKey() error {
	text, err := l.dir.ReadFile(l.name + keySuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return l.makeKey()
	}
	if err != nil {
		return err
	}
	if l.sign, err = parseSigner(string(text)); err != nil {
		return fmt.Errorf("%s: %w; %s", l.name+keySuffix, err, anew)
	}
	f, err := l.create(keySuffix, os.O_RDWR) // sets its mode and owner
	if err == nil {
		err = firstOf(f.Close(), l.publish())
	}
	return err
}

// makeKey writes the key under another name first: half a key would be worse
// than none.
func (l *Log) makeKey() (err error) {
	if old, err := segments(l.dir.FS(), l.name); err != nil || len(old) > 0 {
		return join(fmt.Errorf("there are records but no key (%s): %s", l.name+keySuffix, anew), err)
	}
	if l.sign, err = newSigner(); err != nil {
		return err
	}
	const fresh = keySuffix + ".new"
	_ = l.dir.Remove(l.name + fresh)
	f, err := l.create(fresh, os.O_RDWR)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(l.sign.secret()); err != nil {
		return join(err, f.Close())
	}
	if err := firstOf(f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := l.dir.Rename(l.name+fresh, l.name+keySuffix); err != nil {
		return err
	}
	return l.publish()
}

func (l *Log) publish() error {
	f, err := l.create(pubSuffix, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close()
	want := l.sign.public().String() + "\n"
	have, err := io.ReadAll(io.LimitReader(f, 4096))
	if err != nil || string(have) == want {
		return err
	}
	if len(have) > 0 {
		return fmt.Errorf("%s is not the public half of %s: one of them was changed; %s", l.name+pubSuffix,
			l.name+keySuffix, anew)
	}
	_, err = f.WriteString(want)
	return err
}

// start finds the end of the chain and goes on from there.
func (l *Log) start() error {
	open := Record{Kind: KindOpen, Key: l.sign.name, Version: l.opts.Version}
	if l.dir != nil {
		var err error
		if open.TornBytes, err = l.findEnd(); err != nil {
			return err
		}
		if err := l.openCheckpoints(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	err := l.append(open)
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if _, err := l.Checkpoint(); err != nil {
		return err
	}
	l.gone.Add(1)
	go l.keepSigning()
	return nil
}

// findEnd opens the active segment and reads where the chain stands: there, or
// at the end of the last closed segment if a rotation was interrupted.
func (l *Log) findEnd() (torn int64, err error) {
	if l.file, err = l.create("", os.O_RDWR|os.O_APPEND); err != nil {
		return 0, err
	}
	if torn, err = l.dropTorn(); err != nil {
		return 0, err
	}
	if l.size > 0 {
		l.seq, l.head, err = lastRecord(l.file, l.size)
		if err == nil {
			l.first, err = firstRecord(l.file)
		}
		return torn, err
	}
	names, err := segments(l.dir.FS(), l.name)
	if err != nil || len(names) < 2 { // the active one, just made, is the last
		l.first = 1
		return torn, err
	}
	f, err := l.dir.Open(names[len(names)-2])
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		l.seq, l.head, err = lastRecord(f, info.Size())
	}
	l.first = l.seq + 1
	return torn, err
}

// dropTorn cuts off a last line without its newline: its write never
// returned, so nothing has relied on it. Where only the newline is missing, the
// record is whole and is kept.
func (l *Log) dropTorn() (torn int64, err error) {
	info, err := l.file.Stat()
	if err != nil {
		return 0, err
	}
	l.size = info.Size()
	l.reserved = l.size
	last, err := readEnd(l.file, l.size)
	if err != nil || len(last) == 0 || last[len(last)-1] == '\n' {
		return 0, err
	}
	start := bytes.LastIndexByte(last, '\n') + 1
	if _, _, err := decode(last[start:]); err == nil {
		if _, err := l.file.WriteString("\n"); err != nil {
			return 0, err
		}
		l.size++
		return 0, nil
	}
	torn = int64(len(last) - start)
	l.size -= torn
	return torn, l.file.Truncate(l.size)
}
