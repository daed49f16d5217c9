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
)

// Limits of a token, in characters.
const (
	MinLength = 32
	MaxLength = 4096
)

// Create makes a random token in a new file of mode 0600. A file that exists
// is left as it is and is an error that matches fs.ErrExist.
func Create(path string) error { return save(path, random()) }

// Load reads the token in a file: its content without at most one newline at
// the end. What could not be sent as a bearer token (RFC 6750, section 2.1), or
// is shorter than MinLength, is an error that does not repeat it.
func Load(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	secret, err := read(f)
	if err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return secret, nil
}

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

func read(r io.Reader) (string, error) {
	raw, err := io.ReadAll(io.LimitReader(r, MaxLength+2))
	if err != nil {
		return "", err
	}
	secret := strings.TrimSuffix(string(raw), "\n")
	if len(secret) < MinLength {
		return "", fmt.Errorf("the token has %d characters and needs %d: make one with sandboxd token new FILE", len(secret), MinLength)
	}
	if len(secret) > MaxLength {
		return "", fmt.Errorf("the token has more than %d characters", MaxLength)
	}
	body := strings.TrimRight(secret, "=")
	if i := strings.IndexFunc(body, func(r rune) bool { return !sendable(r) }); i >= 0 {
		return "", fmt.Errorf("character %d of the token cannot be sent as a bearer token: letters, digits and -._~+/ can (at most one newline may follow the token)", i+1)
	}
	return secret, nil
}

func sendable(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-._~+/", r)
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
