package issue

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"regexp"
	"sync"
	"time"
)

// codes are the authorization codes that are out. They live in memory, as hashes: a
// restart forgets them, so that none can be used twice.
type codes struct {
	mu  sync.Mutex
	all map[[32]byte]*code
}

type code struct {
	approval Approval
	made     time.Time
	used     bool
}

// codeKept is how long a used code is known, to withdraw what it gave.
const codeKept = 10 * time.Minute

func (c *codes) add(a Approval, now time.Time) string {
	text := rand.Text() + rand.Text()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[[32]byte]*code{}
	}
	for key, old := range c.all {
		if now.Sub(old.made) > codeKept {
			delete(c.all, key)
		}
	}
	c.all[sha256.Sum256([]byte(text))] = &code{approval: a, made: now}
	return text
}

// look returns what a code was made for and whether it was used before; with use, it is
// used from now on.
func (c *codes) look(text string, now time.Time, use bool) (a *Approval, used bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.all[sha256.Sum256([]byte(text))]
	if found == nil || !found.used && now.Sub(found.made) > CodeLife {
		return nil, false
	}
	used = found.used
	found.used = used || use
	return &found.approval, used
}

var (
	verifierForm  = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)
	challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
)

// ValidChallenge reports the form of an S256 code challenge (RFC 7636, section 4.2).
func ValidChallenge(text string) bool { return challengeForm.MatchString(text) }

func challenges(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	made := base64.RawURLEncoding.EncodeToString(sum[:])
	return verifierForm.MatchString(verifier) && subtle.ConstantTimeCompare([]byte(made), []byte(challenge)) == 1
}
