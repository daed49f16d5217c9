package issue

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"regexp"
	"sync/atomic"
	"time"
)

// code is an authorization code that is out. They live in memory: a restart forgets them,
// so that none can be used twice.
type code struct {
	approval Approval
	made     time.Time
	used     atomic.Bool
}

// codeKept is how long a used code is known, to withdraw what it gave. maxCodes is how
// many are: only the owner's consent makes one.
const (
	codeKept = 10 * time.Minute
	maxCodes = 1000
)

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
