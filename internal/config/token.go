package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// MinToken is the fewest characters that a token may have.
const MinToken = 32

// maxTokenFile bounds what is read of a token file, in bytes.
const maxTokenFile = 4096

// ReadToken reads a token file: the token and at most one newline. The error
// never repeats what the file holds.
func ReadToken(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", fmt.Errorf("token file %q is not a regular file", path)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxTokenFile+1))
	if err != nil {
		return "", fmt.Errorf("token file: %w", err)
	}
	token := strings.TrimSuffix(string(data), "\n")
	if err := CheckToken(token); err != nil {
		return "", fmt.Errorf("token file %q: %w", path, err)
	}
	return token, nil
}

// CheckToken reports why token cannot be used as a bearer token: it needs 32
// characters or more, all of them visible ASCII (RFC 6750, section 2.1, allows
// fewer still, but no client refuses the others).
func CheckToken(token string) error {
	if len(token) > maxTokenFile {
		return errors.New("the token is longer than 4096 characters")
	}
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return errors.New("the token holds a blank, a line break or a character that is not ASCII; a token file " +
				"holds the token and at most one newline")
		}
	}
	if len(token) < MinToken {
		return fmt.Errorf("the token has %d characters, at least %d are needed; make one with: sallyport token new "+
			"FILE", len(token), MinToken)
	}
	return nil
}
