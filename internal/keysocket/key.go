// Package keysocket is a unix socket whose caller proves a 256-bit key in its
// first line. It is for sockets that lie where other processes of the same uid
// may connect: the commands of a sandbox share sandboxd's uid, so the peer's
// credentials prove nothing.
//
// On the wire: the client sends the key as 64 hex digits and a newline, the
// server answers "ok\n" or "refused\n" and closes; then the connection belongs
// to the caller. The server keeps the key's SHA-256 only.
package keysocket

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// digits is the length of a key in hex.
const digits = 64

// standIn is what our systemd units hand over in place of a key file that does
// not exist (SetCredential= beside LoadCredential=, systemd.exec(5)), so that
// the server's own words name the command that makes one.
const standIn = "missing"

// A Key is what a client proves. It prints as nothing, so that it cannot reach
// a log by accident.
type Key struct{ line [digits + 1]byte }

// A Sum is the SHA-256 of a key: what a server keeps.
type Sum [sha256.Size]byte

// String hides the key.
func (Key) String() string { return "[key]" }

// GoString hides the key from %#v.
func (Key) GoString() string { return "[key]" }

// Sum returns what a server keeps of k.
func (k Key) Sum() Sum { return sha256.Sum256(k.line[:digits]) }

func (s Sum) accepts(line []byte) bool {
	got := sha256.Sum256(line[:digits])
	return subtle.ConstantTimeCompare(got[:], s[:]) == 1 && line[digits] == '\n'
}

// ParseKey takes 64 lower-case hex digits and at most one newline. The error
// never repeats what was given.
func ParseKey(text []byte) (k Key, err error) {
	text = bytes.TrimSuffix(text, []byte("\n"))
	raw := make([]byte, digits/2)
	if len(text) != digits {
		return k, fmt.Errorf("a key is 64 hex digits and at most one newline, this has %d bytes", len(text))
	}
	if _, err := hex.Decode(raw, text); err != nil || !bytes.Equal(text, bytes.ToLower(text)) {
		return k, fmt.Errorf("a key is 64 hex digits (0-9, a-f)")
	}
	copy(k.line[:], text)
	k.line[digits] = '\n'
	return k, nil
}

// Create makes a random key in a new file of mode 0600. A file that exists is
// left as it is and is an error that matches fs.ErrExist.
func Create(path string) error {
	bits := make([]byte, digits/2)
	rand.Read(bits) // never fails: it ends the program instead
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%x\n", bits)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path) // half a key is worse than none
	}
	return err
}

// ReadKey reads a key file: a regular file, not a symbolic link, that its
// group may at most read and others may not touch. "make env" and "make run"
// make one.
func ReadKey(path string) (k Key, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return k, fmt.Errorf("key file: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return k, fmt.Errorf("key file: %w", err)
	case !info.Mode().IsRegular():
		return k, fmt.Errorf("key file %q is not a regular file", path)
	case info.Mode().Perm()&0o037 != 0:
		return k, fmt.Errorf("key file %q has mode %04o: chmod it to 0600 (0640 where root made it for a group)", path,
			info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, digits+2))
	if err != nil {
		return k, fmt.Errorf("key file: %w", err)
	}
	if string(text) == standIn {
		return k, fmt.Errorf("key file %q: the unit found no /etc/sallyport/%[2]s: make it with \"sallyport token "+
			"key /etc/sallyport/%[2]s\", then start the unit again",
			path, filepath.Base(path))
	}
	if k, err = ParseKey(text); err != nil {
		return k, fmt.Errorf("key file %q: %w; \"sallyport token key\" makes one where there is no file", path, err)
	}
	return k, nil
}
