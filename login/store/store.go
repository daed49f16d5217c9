// Package store keeps what login remembers: one file in one directory, held by one
// process, and beside it the list of revoked grants that the edge reads.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Version is that of the file. A newer one stops the start: setting it aside would
// forget what the owner decided.
const Version = 1

// Store is the state directory, locked. Its methods may be called at the same time.
type Store struct {
	lock          *os.File
	file, revoked string // the paths of the state and of the list

	mu    sync.Mutex
	state State
	seq   uint64 // changes made

	writing sync.Mutex
	written uint64 // changes on the disk
	listed  string // what the list holds
}

// Open locks the directory, making it where it is missing, and reads its file. What
// cannot be read is renamed to state.json.corrupt-TIME and said; login then begins
// anew, but what the list names stays revoked.
func Open(path, revoked string, say func(string)) (*Store, error) {
	err := errors.Join(os.MkdirAll(path, 0o700), os.MkdirAll(filepath.Dir(revoked), 0o700))
	info, wrong := os.Stat(path)
	if err = errors.Join(err, wrong); err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s is open to others (%v): chmod 0700 it", path, info.Mode().Perm())
	}
	if err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: lock, file: filepath.Join(path, "state.json"), revoked: revoked}
	if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		err = fmt.Errorf("%s: another sallyport-login holds this folder", path)
	} else {
		err = s.read(say)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close gives up the lock.
func (s *Store) Close() error { return s.lock.Close() }

func (s *Store) read(say func(string)) error {
	s.state = newState()
	path := s.file
	raw, err := os.ReadFile(path)
	if err == nil {
		if err = json.Unmarshal(raw, &s.state); err == nil && s.state.Version < 1 {
			err = errors.New("it has no version")
		}
		if err != nil {
			s.state = newState()
			aside := path + ".corrupt-" + time.Now().UTC().Format("20060102T150405.000000000")
			say(fmt.Sprintf("%s could not be read (%v): it is kept as %s, and login begins anew", path, err, aside))
			err = os.Rename(path, aside)
		}
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if s.state.Version > Version {
		return fmt.Errorf("%s was written by a newer release: start that one", path)
	}
	list, err := os.ReadFile(s.revoked)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.state.adopt(strings.Fields(string(list)), time.Now())
	s.state.Version = Version
	s.seq, s.listed = 1, "unread"
	return s.flush(1)
}

// Proofs returns what proves the owner: the hash of the password, or "", and the passkeys.
func (s *Store) Proofs() (password string, passkeys []Passkey) {
	s.View(func(st *State) { password, passkeys = st.Password, slices.Clone(st.Passkeys) })
	return password, passkeys
}

// View calls look with the state. It must not keep or change any part of it.
func (s *Store) View(look func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	look(&s.state)
}

// ErrUnchanged is what a change returns that had nothing to do.
var ErrUnchanged = errors.New("unchanged")

// Update calls change with the state and returns when state and list are on the disk.
// Changes that come at the same time share one write. Where change returns an error,
// it must have changed nothing; the error is returned as it is, except ErrUnchanged.
//
// If writing fails, memory keeps the change: what was used up stays used up, and the
// next write brings it to the disk.
func (s *Store) Update(change func(*State) error) error {
	s.mu.Lock()
	if err := change(&s.state); err != nil {
		s.mu.Unlock()
		if errors.Is(err, ErrUnchanged) {
			return nil
		}
		return err
	}
	s.seq++
	mine := s.seq
	s.mu.Unlock()
	return s.flush(mine)
}

func (s *Store) flush(mine uint64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.written >= mine {
		return nil
	}
	s.mu.Lock()
	raw, err := json.Marshal(s.state)
	upTo, list := s.seq, s.state.list()
	s.mu.Unlock()
	if err == nil {
		err = replace(s.file, raw, 0o600)
	}
	if err == nil && list != s.listed {
		err = replace(s.revoked, []byte(list), 0o644) // its folder says who reads it
	}
	if err != nil {
		return fmt.Errorf("the state cannot be kept: %w", err)
	}
	s.written, s.listed = upTo, list
	return nil
}

// list names the revoked grants, one in a line.
func (s *State) list() string {
	return strings.Join(append(slices.Sorted(maps.Keys(s.Revoked)), ""), "\n")
}

// replace puts a file in place so that a crash leaves the old one or the new one.
func replace(path string, raw []byte, mode os.FileMode) error {
	out, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(raw)
	if err = errors.Join(err, out.Chmod(mode), out.Sync(), out.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	dir, wrong := os.Open(filepath.Dir(path))
	if err = errors.Join(err, wrong); err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
