package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

const (
	maxSecrets     = 100      // variables of one set
	maxSecretsFile = 64 << 10 // bytes
)

// secrets of one file, and a fingerprint of their content: a touch or a
// comment changes nothing in it.
type secrets struct {
	values map[string]string
	print  string
}

// readSecrets reads <dir>/<set>.env. It opens first and asks afterwards, so
// that nothing can be swapped in between. No error holds a value.
func readSecrets(dir, set string) (*secrets, error) {
	name := set + ".env"
	fail := func(format string, args ...any) (*secrets, error) {
		return nil, fmt.Errorf("secrets %s: %w", name, fmt.Errorf(format, args...))
	}
	fd, err := syscall.Open(filepath.Join(dir, name),
		syscall.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err == syscall.ELOOP {
		return fail("is a symbolic link")
	} else if err != nil {
		return fail("%w", err)
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return fail("%w", err)
	case !info.Mode().IsRegular():
		return fail("is not a regular file")
	case info.Mode().Perm()&^0o640 != 0:
		return fail("has mode %04o, which lets others in: chmod 640", info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSecretsFile+1))
	if err != nil {
		return fail("cannot be read")
	}
	values, err := parseSecrets(data)
	if err != nil {
		return fail("%w", err)
	}
	canonical, _ := json.Marshal(values) // sorted by key
	sum := sha256.Sum256(canonical)
	return &secrets{values, hex.EncodeToString(sum[:])}, nil
}

// parseSecrets reads NAME=value lines. Spaces around either are dropped, a
// pair of quotes around the whole value too; # begins a comment line.
func parseSecrets(data []byte) (map[string]string, error) {
	switch {
	case len(data) > maxSecretsFile:
		return nil, fmt.Errorf("is larger than %d bytes", maxSecretsFile)
	case strings.ContainsRune(string(data), 0):
		return nil, errors.New("contains NUL")
	case !utf8.Valid(data):
		return nil, errors.New("is not UTF-8")
	}
	values, n := map[string]string{}, 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			if len(value) < 2 || value[len(value)-1] != value[0] {
				return nil, fmt.Errorf("line %d: the quotes do not close", n)
			}
			value = value[1 : len(value)-1]
		}
		if !found || !mcpjson.EnvName(name) {
			return nil, fmt.Errorf("line %d: is not NAME=value", n)
		}
		if _, twice := values[name]; twice {
			return nil, fmt.Errorf("line %d: the name is there already", n)
		}
		values[name] = value
	}
	if len(values) > maxSecrets {
		return nil, fmt.Errorf("has more than %d variables", maxSecrets)
	}
	return values, nil
}

// redact keeps what the daemon says from carrying a value back.
func redact(err error, sets ...map[string]string) error {
	if err == nil {
		return nil
	}
	for _, values := range sets {
		for _, value := range values {
			if len(value) > 3 && strings.Contains(err.Error(), value) {
				return errors.New("failed; the daemon's words are withheld, for they contain a value of the " +
					"environment")
			}
		}
	}
	return err
}
