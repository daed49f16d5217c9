// Package approval holds calls until the owner has decided on them. It knows
// neither a transport nor a tool: the sandbox and the hub call Wait at the point
// where a call would run, and the owner's socket calls Decide.
//
// A decision binds one Key: who calls which tool of which server, with which
// arguments, on which file as it is. It is used once and expires. Whatever
// races, a request has one outcome, and a restart forgets what waits.
package approval

import (
	"errors"
	"time"
)

// The bounds of approvals.
const (
	// MaxWaiting is how many requests of one principal may wait at once.
	MaxWaiting = 16
	// Expiry is how long a request waits for a decision, and a decision for
	// the call that uses it.
	Expiry = 10 * time.Minute
	// Standing is how long a decision for more than one call is in force.
	Standing = 15 * time.Minute
	// Hold is how long a call is held whose client asked for no progress: many
	// clients give up after 60 s.
	Hold = 50 * time.Second
	// HoldProgress is the same for one that is kept up to date.
	HoldProgress = 210 * time.Second
	// maxBytes bounds what all requests that wait may hold in memory.
	maxBytes = 16 << 20 // escaped as JSON it can be six times as much

	// small is what those of one principal may hold beside that: one large call of
	// somebody else, who may ask again and again, refuses it no usual one.
	small = 64 << 10
)

// A Key is what a decision binds.
type Key struct {
	Principal, Server, Tool string
	Digest                  string // HMAC of the canonical arguments
	File                    string // digest of the file that a write would replace, as it is; "" where none is
}

// A Request is a call that needs a decision.
type Request struct {
	Key
	Session   string
	Arguments []byte        // JSON, for the owner to read, whole
	Preview   string        // what else the owner should see, such as a diff
	Hold      time.Duration // how long the call is held before it is answered as pending
}

// Scopes of an approval.
const (
	Once   = "once"   // this call, once
	Digest = "digest" // this exact call, for Standing
	Tool   = "tool"   // this tool of this principal, for Standing
)

// An Outcome is what a call is told.
type Outcome int

// The outcomes of Wait.
const (
	Approved Outcome = iota + 1
	Denied
	Pending // nobody has decided yet: the same call again attaches to the request
	Expired // nobody has decided in time
	TooMany // MaxWaiting requests of this principal wait already, or too many bytes of everybody's
	Unclear // the arguments have no canonical form, so that no decision could bind them
	Gone    // the caller's context has ended
)

// A Verdict is the answer to one call.
type Verdict struct {
	Outcome
	ID     string    // of the request
	Reason string    // the owner's words for a denial
	Until  time.Time // until when the same call again attaches, for Pending
}

// A Waiting is a request that waits, as the owner sees it.
type Waiting struct {
	ID        string    `json:"id"`
	Principal string    `json:"principal"`
	Session   string    `json:"session,omitempty"`
	Server    string    `json:"server,omitempty"`
	Tool      string    `json:"tool"`
	Arguments string    `json:"arguments"` // JSON as it came
	Preview   string    `json:"preview,omitempty"`
	Asked     time.Time `json:"asked"`
	Expires   time.Time `json:"expires"`
	Held      int       `json:"held"` // calls that are held for it right now
}

// A Decision is the owner's.
type Decision struct {
	ID      string
	Approve bool
	Scope   string // of an approval; "" is Once
	Reason  string // of a denial, told to the client
}

// Errors of Decide.
var (
	ErrUnknown = errors.New("nothing waits under this id: it was decided already, has expired, or the server was " +
		"started again since")
	ErrScope = errors.New("an approval is for once, digest or tool")
)
