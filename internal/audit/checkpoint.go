package audit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A checkpoint is signed after this many records, and otherwise a minute after
// the first record that none covers. What is newer is not proven yet.
const (
	signEvery = 256
	signAfter = time.Minute
)

// openCheckpoints compares the end of the chain with the last checkpoint: a
// chain that was cut must not go on as if nothing had been.
func (l *Log) openCheckpoints() (err error) {
	if l.points, err = l.create(pointsSuffix, os.O_RDWR|os.O_APPEND); err != nil {
		return err
	}
	text, err := io.ReadAll(l.points)
	if err != nil {
		return err
	}
	notes, rest := splitNotes(string(text))
	if rest != "" { // unfinished, like a torn line
		if err := l.points.Truncate(int64(len(text) - len(rest))); err != nil {
			return err
		}
	}
	if len(notes) > 0 {
		c, err := l.sign.public().Open(notes[len(notes)-1])
		if err != nil {
			return fmt.Errorf("%s: %w", l.name+pointsSuffix, err)
		}
		if c.Seq > l.seq || c.Seq == l.seq && c.Head != l.head {
			return fmt.Errorf("the last checkpoint covers %d records and only %d are there: the chain was cut or "+
				"changed; %s", c.Seq, l.seq, anew)
		}
		l.lastNote = notes[len(notes)-1]
	}
	return l.openAnchors()
}

func (l *Log) openAnchors() (err error) {
	if l.opts.AnchorDir == "" {
		return nil
	}
	if info, err := os.Stat(l.opts.AnchorDir); err == nil && sameDisk(info, l.folder) {
		l.opts.Log.Warn("the anchors lie on the same file system as the audit: whoever can rewrite one can rewrite "+
			"both", "directory", l.opts.AnchorDir)
	}
	base := filepath.Join(l.opts.AnchorDir, anchorName(l.sign.name))
	l.anchors, err = os.OpenFile(base+".anchors", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("anchor directory: %w", err)
	}
	if err := os.WriteFile(base+pubSuffix, []byte(l.sign.public().String()+"\n"), 0o600); err != nil {
		return fmt.Errorf("anchor directory: %w", err)
	}
	return nil
}

func sameDisk(a os.FileInfo, folder *os.File) bool {
	b, err := folder.Stat()
	if err != nil {
		return false
	}
	return a.Sys().(*syscall.Stat_t).Dev == b.Sys().(*syscall.Stat_t).Dev
}

func anchorName(key string) string { return strings.ReplaceAll(key, "/", "-") }

// kick asks for a checkpoint soon.
func (l *Log) kick() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Log) keepSigning() {
	defer l.gone.Done()
	tick := time.NewTicker(signAfter)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-l.wake:
		case <-tick.C:
			l.mu.Lock()
			_ = l.flush()
			l.mu.Unlock()
		}
		if _, err := l.Checkpoint(); err != nil {
			l.opts.Log.Error("no checkpoint could be written", "file", l.opts.File, "error", err)
		}
	}
}

// Checkpoint signs what is recorded so far and returns the signed note; it
// returns the last one where nothing is new. The records are on the disk
// before the signature is.
func (l *Log) Checkpoint() (note string, err error) {
	if l == nil || l.dir == nil {
		return "", nil
	}
	l.signing.Lock()
	defer l.signing.Unlock()
	l.mu.Lock()
	c, file, pruned := Checkpoint{l.seq, l.head, l.opts.Now()}, l.file, l.pruned
	l.mu.Unlock()
	if c.Seq == l.signed {
		return l.lastNote, nil
	}
	if err := l.ownModes(file); err != nil {
		return "", err
	}
	// A segment that a rotation has closed meanwhile was synced by it.
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		return "", err
	}
	note = l.sign.sign(c)
	if err := l.write(note); err != nil {
		return "", err
	}
	l.mu.Lock()
	l.signed = c.Seq
	l.mu.Unlock()
	l.lastNote = note
	if pruned > l.trimmed {
		err = l.trim(pruned)
	}
	return note, err
}

// ownModes sets the modes of the folder and the active segment again.
func (l *Log) ownModes(file *os.File) error {
	if err := l.ownFolder(); err != nil {
		return err
	}
	info, err := file.Stat()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	if err == nil && info.Mode().Perm() != 0o600 {
		err = file.Chmod(0o600)
	}
	return err
}

// write appends a note to the checkpoints and the anchors. Where anchors
// cannot be written calls go on, since the checkpoints can.
func (l *Log) write(note string) error {
	info, err := l.points.Stat()
	if err != nil {
		return err
	}
	if _, err := l.points.WriteString(note + "\n"); err != nil {
		return join(err, l.points.Truncate(info.Size()))
	}
	if l.anchors != nil {
		if _, err := l.anchors.WriteString(note + "\n"); err != nil {
			l.opts.Log.Error("this checkpoint could not be anchored", "directory", l.opts.AnchorDir, "error", err)
		}
	}
	return nil
}

// trim drops the checkpoints of records that retention has removed.
func (l *Log) trim(through uint64) error {
	l.ownFile(l.name + pointsSuffix)
	text, err := l.dir.ReadFile(l.name + pointsSuffix)
	if err != nil {
		return err
	}
	var kept strings.Builder
	notes, _ := splitNotes(string(text))
	for _, note := range notes {
		if c, err := l.sign.public().Open(note); err == nil && c.Seq >= through {
			kept.WriteString(note + "\n")
		}
	}
	const fresh = pointsSuffix + ".new"
	_ = l.dir.Remove(l.name + fresh)
	f, err := l.create(fresh, os.O_RDWR|os.O_APPEND)
	if err != nil {
		return err
	}
	if _, err := f.WriteString(kept.String()); err != nil {
		return join(err, f.Close())
	}
	if err := firstOf(f.Sync(), l.dir.Rename(l.name+fresh, l.name+pointsSuffix)); err != nil {
		return join(err, f.Close())
	}
	_ = l.points.Close()
	l.points, l.trimmed = f, through
	return nil
}

// firstOf returns the first error.
func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// Close writes what is late and a last checkpoint. Calls that have begun and
// not ended stay so in the record. A second Close does nothing.
func (l *Log) Close() (err error) {
	if l == nil {
		return nil
	}
	l.once.Do(func() { err = l.close() })
	return err
}

func (l *Log) close() error {
	close(l.done)
	l.gone.Wait()
	l.mu.Lock()
	err := l.flush()
	l.mu.Unlock()
	_, err2 := l.Checkpoint()
	l.signing.Lock()
	defer l.signing.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		_ = l.file.Truncate(l.size) // gives back room that was reserved
	}
	l.closeFiles()
	return errors.Join(err, err2)
}

func (l *Log) closeFiles() {
	for _, f := range []*os.File{l.file, l.points, l.anchors, l.folder, l.lock} {
		if f != nil {
			_ = f.Close()
		}
	}
	if l.dir != nil {
		_ = l.dir.Close()
	}
}
