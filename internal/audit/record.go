package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Kinds of records.
const (
	KindOpen    = "open"    // a writer opened the chain
	KindBegin   = "begin"   // a call was admitted; written before the tool runs
	KindEnd     = "end"     // what came of the call whose begin has the sequence number Begin
	KindRefused = "refused" // a call that was not admitted; nothing ran
	KindPrune   = "prune"   // the records up to Through were removed by retention
	KindEvent   = "event"   // something else that the owner may ask about: a decision, a stop, a connection
)

// Record is one line. Fields that do not apply are absent. Sizes are bytes.
type Record struct {
	Seq       uint64    `json:"seq"` // 1, 2, 3 … without a gap, through all segments
	Kind      string    `json:"kind"`
	Time      time.Time `json:"time"`              // UTC
	Request   string    `json:"request,omitempty"` // X-Sallyport-Request, the edge's name of the HTTP request
	Principal string    `json:"principal,omitempty"`
	Session   string    `json:"session,omitempty"` // none in the stateless protocol
	Server    string    `json:"server,omitempty"`  // the hub's
	Tool      string    `json:"tool,omitempty"`

	ArgumentsHMAC string          `json:"arguments_hmac,omitempty"` // of the canonical arguments, hex
	InputBytes    int             `json:"input_bytes,omitempty"`    // of the arguments, as JSON
	Arguments     json.RawMessage `json:"arguments,omitempty"`      // only where the owner asked for it, masked

	Begin       uint64 `json:"begin,omitempty"` // of an end: the sequence number of its begin
	Verdict     string `json:"verdict,omitempty"`
	MS          int64  `json:"ms,omitempty"` // from begin to end, in milliseconds
	ResultBytes int    `json:"result_bytes,omitempty"`

	Event   string            `json:"event,omitempty"` // of an event: its name in snake_case
	Details map[string]string `json:"details,omitempty"`

	Key       string `json:"key,omitempty"`        // of an open: the name of the key that signs checkpoints
	Version   string `json:"version,omitempty"`    // of an open: the program's
	TornBytes int64  `json:"torn_bytes,omitempty"` // of an open: length of the unfinished last line it dropped

	Through     uint64 `json:"through,omitempty"`      // of a prune: the last record removed
	ThroughHash string `json:"through_hash,omitempty"` // and its hash

	Prev string `json:"prev"` // hash of the record before, 64 zeros for the first
}

// A hash names a record.
type hash [sha256.Size]byte

func (h hash) String() string { return hex.EncodeToString(h[:]) }

// tail is the member that ends each line: the hash of all that is before it,
// closed with a brace.
const (
	tailStart = `,"hash":"`
	tailLen   = len(tailStart) + 2*sha256.Size + len(`"}`)
)

// encode returns the line of r, with its newline, and its hash.
func encode(r Record) ([]byte, hash, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, hash{}, fmt.Errorf("audit record: %w", err)
	}
	sum := hash(sha256.Sum256(body))
	return append(append(body[:len(body)-1], tailOf(sum)...), '\n'), sum, nil
}

func tailOf(sum hash) []byte { return []byte(tailStart + sum.String() + `"}`) }

var errLine = errors.New("not a record of this format")

// errHash means that a line is a record whose content does not have the hash
// that the line ends with.
var errHash = errors.New("its hash does not fit its content")

// decode reads a line without its newline. With errHash the record is
// returned all the same.
func decode(line []byte) (Record, hash, error) {
	var r Record
	at := len(line) - tailLen
	var named hash
	if at < 1 {
		return r, named, errLine
	}
	if _, err := hex.Decode(named[:], line[at+len(tailStart):len(line)-2]); err != nil ||
		!bytes.Equal(line[at:], tailOf(named)) {
		return r, hash{}, errLine
	}
	body := append(bytes.Clone(line[:at]), '}')
	if err := json.Unmarshal(body, &r); err != nil || r.Seq == 0 {
		return r, hash{}, errLine
	}
	if hash(sha256.Sum256(body)) != named {
		return r, named, errHash
	}
	return r, named, nil
}
