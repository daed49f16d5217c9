package token

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/config"
)

// Create makes a random token in a new file of mode 0600. A file that exists
// is left as it is and is an error that matches fs.ErrExist.
func Create(path string) error { return save(path, random()) }

// random returns 256 bits as 46 characters. The prefix lets scanners for leaked
// secrets name it, and keeps it from starting with a dash.
func random() string {
	bits := make([]byte, 32)
	rand.Read(bits) // never fails: it ends the program instead
	return "sp_" + base64.RawURLEncoding.EncodeToString(bits)
}

func save(path, secret string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: a token is never overwritten; move the old file away first", err)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, secret+"\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path) // half a token is worse than none
	}
	return err
}

// read reads a token as config.ReadToken does, from standard input.
func read(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, 1<<16))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSuffix(string(raw), "\n")
	return secret, config.CheckToken(secret)
}

// private reports a file that others than its owner can open.
func private(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return fmt.Errorf("%s can be opened by others (mode %04o): chmod 600 %s", path, mode.Perm(), path)
	}
	return nil
}
