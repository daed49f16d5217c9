package plugin

import (
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// revocations are the grants of an issuer that were withdrawn before their tokens
// expired, as its revokedFile names them: one id per line, each with its newline.
type revocations struct {
	file string
	log  *slog.Logger

	mu   sync.Mutex
	read int64  // when it was, in nanoseconds
	text string // a newline, then the file
	err  error  // why the file cannot be used
}

// revokedInterval is how often the file is read again. A grant that was revoked is
// refused within a second.
const revokedInterval = 400 * time.Millisecond

const maxRevoked = 1 << 20

var revokedForm = regexp.MustCompile(`^(?:[A-Za-z0-9._@|:+-]+\n)*$`)

// isRevoked returns an error where the file cannot be used: nobody can then be
// let in. The file is read by its name, since it is replaced and not rewritten.
func isRevoked(r *revocations, grant string, now int64) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if uint64(now-r.read) > uint64(revokedInterval) { // also where the clock was set back
		before := r.err
		r.read = now
		data, err := readRevoked(r.file)
		r.err = err
		if text := "\n" + string(data); text != r.text && err == nil {
			r.text = text
			if !revokedForm.MatchString(text[1:]) {
				r.text = ""
				r.err = errors.New("it must have one grant per line, and a newline at its end")
			}
		}
		if r.err != nil && before == nil {
			r.log.Error("nobody with a token of the issuer is let in: " +
				"oauth.revokedFile " + r.file + ": " + r.err.Error())
		}
	}
	return strings.Contains(r.text, "\n"+grant+"\n"), r.err
}

func readRevoked(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxRevoked {
		return nil, errors.New("it is not a regular file of at most 1 MiB")
	}
	return os.ReadFile(file)
}

// ended says why what a request was allowed may not go on, or "".
func ended(c *call) string {
	now := time.Now().UnixNano()
	if now >= c.who.until {
		return expired
	}
	if c.who.grant == "" || c.e.oauth.revoked == nil {
		return ""
	}
	gone, err := isRevoked(c.e.oauth.revoked, c.who.grant, now)
	if err != nil {
		return noRevocations
	}
	if gone {
		return revoked
	}
	return ""
}

const (
	revoked       = "the grant of this token was revoked"
	noRevocations = "the list of revoked grants cannot be read: see the log"
)
