// Package owner establishes that a browser is the owner's: by password, passkey or the
// one-time code of the first start.
package owner

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
)

// MinPassword and MaxPassword bound a password's length in characters and bytes.
const (
	MinPassword = 12
	MaxPassword = 1024
)

// form is how a hash is kept: argon2id with 64 MiB, 3 passes, 1 lane (RFC 9106, section
// 4, scaled to a container of 256 MiB). Another cost is another prefix.
const form = "$argon2id$v=19$m=65536,t=3,p=1$"

var (
	hashing sync.Mutex // bounds the memory of hashes at once
	b64     = base64.RawStdEncoding
)

func derive(password string, salt []byte) string {
	hashing.Lock()
	defer hashing.Unlock()
	key := argon2.IDKey([]byte(password), salt, 3, 64<<10, 1, 32)
	return form + b64.EncodeToString(salt) + "$" + b64.EncodeToString(key)
}

// HashPassword makes the PHC form that the state keeps.
func HashPassword(password string) (string, error) {
	if utf8.RuneCountInString(password) < MinPassword || len(password) > MaxPassword {
		return "", fmt.Errorf("a password has %d characters or more, and at most %d bytes", MinPassword, MaxPassword)
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	return derive(password, salt), nil
}

// ValidHash reports whether HashPassword could have made hash.
func ValidHash(hash string) bool {
	return strings.HasPrefix(hash, form) && len(hash) == len(form)+22+1+43
}

// CheckPassword reports whether hash is the password's. No hash takes as long as a wrong one.
func CheckPassword(hash, password string) bool {
	known := ValidHash(hash) && len(password) <= MaxPassword
	if !known {
		hash, password = form+"c2FsbHlwb3J0LWxvZ2luLg$", "nobody's"
	}
	salt, err := b64.DecodeString(strings.Split(hash, "$")[4])
	return subtle.ConstantTimeCompare([]byte(derive(password, salt)), []byte(hash)) == 1 && known && err == nil
}

// CodeLife is how long the one-time code of a first start is good for.
const CodeLife = 10 * time.Minute

// Code is the one-time code that proves, on the first start, that a browser belongs to
// who can read login's log. It is good for one use.
type Code struct {
	mu      sync.Mutex
	text    string
	expires time.Time
}

// New makes a code of 100 bits, in groups of five, and forgets the one before.
func (c *Code) New(now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := rand.Text()
	c.text, c.expires = t[:20], now.Add(CodeLife)
	return t[:5] + "-" + t[5:10] + "-" + t[10:15] + "-" + t[15:20]
}

// Use reports whether text is the code; if so, it is used up.
func (c *Code) Use(text string, now time.Time) bool {
	text = strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	ok := c.text != "" && now.Before(c.expires) && subtle.ConstantTimeCompare([]byte(text), []byte(c.text)) == 1
	if ok {
		c.text = ""
	}
	return ok
}
