package plugin

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"
)

// A secret is one token's source: exactly one of its fields is set.
type secret struct {
	file string
	text string
	sum  []byte
}

// table is a consistent view of all secrets. It is replaced, never changed.
type table struct {
	sums    [][]byte // as edge.tokens; nil matches nothing
	backend []string // Authorization for the backend; nil where there is none that is usable
	read    int64    // when the files were, in nanoseconds

	posts, deletes map[[32]byte]*known // usageMu guards them
}

// secretInterval is how often files are read again: often enough for a
// rotation, and requests pay a few microseconds a second for it.
const secretInterval = time.Second

var tokenForm = regexp.MustCompile(`^[\x21-\x7e]{32,}$`)

// read returns a secret's hash and, where it is known, its text. A file holds
// the token and at most one newline. Only regular files are opened: a FIFO would
// hold the request indefinitely.
func (s *secret) read() ([]byte, string, error) {
	text := s.text
	from := "the token"
	if s.sum != nil {
		return s.sum, "", nil
	}
	if s.file != "" {
		info, err := os.Stat(s.file)
		if err != nil {
			return nil, "", err
		}
		if !info.Mode().IsRegular() || info.Size() > 4097 {
			return nil, "", fmt.Errorf("%s is not a regular file of at most 4 KiB", s.file)
		}
		data, err := os.ReadFile(s.file)
		if err != nil {
			return nil, "", err
		}
		text = strings.TrimSuffix(string(data), "\n")
		from += " in " + s.file
	}
	if !tokenForm.MatchString(text) {
		return nil, "", fmt.Errorf("%s must be at least 32 characters of printable ASCII without spaces", from)
	}
	sum := sha256.Sum256([]byte(text))
	return sum[:], text, nil
}

// loadSecrets reads every secret and adds what is wrong to the list. What cannot
// be used matches nothing: a client token then gets 401, a backend token 503.
func loadSecrets(e *edge, wrong *[]string) *table {
	t := &table{sums: make([][]byte, len(e.tokens)), read: time.Now().UnixNano(), posts: map[[32]byte]*known{},
		deletes: map[[32]byte]*known{}}
	for i, tok := range e.tokens {
		sum, _, err := tok.secret.read()
		if err != nil {
			*wrong = append(*wrong, tok.where+err.Error())
		} else if j := indexOf(t.sums, sum); j >= 0 {
			*wrong = append(*wrong, tok.where+"is the same token as "+e.tokens[j].who.id)
		} else {
			t.sums[i] = sum
		}
	}
	if e.backendToken == nil {
		return t
	}
	sum, text, err := e.backendToken.read()
	if err != nil {
		*wrong = append(*wrong, "backend token: "+err.Error())
	} else if j := indexOf(t.sums, sum); j >= 0 {
		*wrong = append(*wrong, "backend token: is the same as "+e.tokens[j].who.id+": a backend needs one of its own")
	} else {
		t.backend = []string{"Bearer " + text}
	}
	return t
}

func indexOf(sums [][]byte, sum []byte) int {
	for i := range sums {
		if bytes.Equal(sums[i], sum) {
			return i
		}
	}
	return -1
}

// refresh reads the files again once their time has come. There is no goroutine:
// a request pays for it.
func refresh(e *edge) *table {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.table.Load().(*table); uint64(time.Now().UnixNano()-t.read) <= e.keep { // another request has paid
		return t
	}
	var wrong []string
	t := loadSecrets(e, &wrong)
	e.table.Store(t)
	trouble := strings.Join(wrong, "; ")
	if trouble != "" && trouble != e.trouble {
		e.log.Error("a token is refused until its file is fixed: " + trouble)
	} else if trouble != e.trouble {
		e.log.Info("all token files can be used again")
	}
	e.trouble = trouble
	return t
}
