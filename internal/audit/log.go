package audit

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// Options of a Log. The zero value of a field means what its comment says.
type Options struct {
	File      string    // the active segment, in a folder of its own; "-" is Stdout; "" records nothing
	Stdout    io.Writer // for "-": a chain for each start, without key, checkpoints and rotation
	Version   string    // of the program, for the open record
	Arguments bool      // keep the arguments themselves, at most 256 KiB of them, masked
	Secrets   []string  // masked wherever a record would hold them; shorter than 8 bytes: ignored
	AnchorDir string    // where each checkpoint is also appended, on another file system; "" nowhere
	UID, GID  int       // for a process that is still root: who will write later; 0 changes no owner
	Log       *slog.Logger

	RotateBytes int64            // a segment's size, about; default 16 MiB
	Keep        int              // closed segments that retention leaves; default 32
	Now         func() time.Time // default time.Now
}

func (o Options) withDefaults() Options {
	if o.RotateBytes == 0 {
		o.RotateBytes = 16 << 20
	}
	if o.Keep == 0 {
		o.Keep = 32
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// A Log writes one chain. A nil Log records nothing and refuses nothing. All
// methods may be called from several goroutines.
type Log struct {
	opts Options
	mask masker
	sign signer
	name string // the file's name within dir

	dir    *os.Root // held, so that nobody can put another folder in its place
	folder *os.File // the same directory, for its mode
	lock   *os.File

	mu       sync.Mutex
	file     *os.File // the active segment; nil for Stdout
	first    uint64   // the sequence number of its first record
	size     int64    // of the active segment
	reserved int64    // up to where the file system has promised room
	seq      uint64   // the last record's
	head     hash
	open     int      // begins without their end
	late     []Record // ends that could not be written yet
	pruned   uint64   // the last record that retention has removed

	signing  sync.Mutex // after it mu, never the other way
	signed   uint64     // the last record that a checkpoint covers
	trimmed  uint64     // the last prune that the checkpoint file has followed
	points   *os.File   // FILE.checkpoints
	anchors  *os.File
	lastNote string

	wake chan struct{}
	done chan struct{}
	once sync.Once // of Close
	gone sync.WaitGroup
}

// A Call is what is known of a call before it runs. Strings longer than 256
// bytes are cut.
type Call struct {
	Request, Principal, Session, Server, Tool string
	Arguments                                 []byte            // JSON as it came; kept only with Options.Arguments
	Details                                   map[string]string // of a connection, say; values are cut too
}

// An Outcome is what came of a call.
type Outcome struct {
	Verdict     string // ok, error, canceled, panic … in snake_case
	ResultBytes int
	Details     map[string]string // values are cut
}

// Digest returns the HMAC-SHA256 of the canonical arguments, in hex. Its key
// belongs to the chain: equal calls have equal digests within it, and nobody
// else can try out what the arguments were.
func (l *Log) Digest(arguments []byte) (string, error) {
	canonical, err := Canonical(arguments)
	if err != nil || l == nil {
		return "", err
	}
	return l.digest(canonical), nil
}

func (l *Log) digest(canonical []byte) string {
	mac := hmac.New(sha256.New, l.sign.argumentsKey())
	mac.Write(canonical)
	return hex.EncodeToString(mac.Sum(nil))
}

// record is what a begin and a refusal say of c. Arguments that have no
// canonical form have no digest either; whether they may run is not decided
// here.
func (l *Log) record(kind string, c Call) Record {
	r := l.mask.record(Record{
		Kind: kind, Request: clip(c.Request), Principal: clip(c.Principal), Session: clip(c.Session),
		Server: clip(c.Server), Tool: clip(c.Tool), InputBytes: len(c.Arguments), Details: clipAll(c.Details),
	})
	canonical, err := Canonical(c.Arguments)
	if err != nil {
		return r
	}
	r.ArgumentsHMAC = l.digest(canonical)
	if l.opts.Arguments && len(canonical) <= maxArguments {
		if kept, err := l.mask.json(canonical); err == nil && len(kept) <= 2*maxArguments {
			r.Arguments = kept
		}
	}
	return r
}

const (
	maxArguments = 256 << 10
	maxName      = 256
)

func clipAll(details map[string]string) map[string]string {
	for key, value := range details {
		details[key] = clip(value)
	}
	return details
}

func clip(s string) string {
	if len(s) > maxName {
		s = s[:maxName] + "..."
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
