// Package ownersock is the owner's socket of the sandbox and the hub: a unix
// socket whose caller proves a key (package keysocket) and then asks, one JSON
// object per line, what runs and waits, and decides, stops and pauses.
// docs/owner.md describes it.
package ownersock

import (
	"encoding/json"
	"time"

	"github.com/sallyport-dev/sallyport/internal/desk"
)

// Operations.
const (
	OpStatus   = "status"   // Status
	OpRunning  = "running"  // []desk.Entry
	OpOutput   = "output"   // Output; ID, Bytes
	OpStop     = "stop"     // null; ID, Now
	OpPause    = "pause"    // null; Principal ("" all), Reason
	OpResume   = "resume"   // null; Principal
	OpPending  = "pending"  // []approval.Waiting
	OpDecide   = "decide"   // null; ID, Approve, For, Reason
	OpSessions = "sessions" // []session.Info
	OpServers  = "servers"  // []Upstream; the hub only
	OpWithheld = "withheld" // Withheld; Name; the hub only
	OpAccept   = "accept"   // null; Name, Sum: exactly what was shown; the hub only
	OpAnchor   = "anchor"   // a signed checkpoint of the audit, as text
	OpEvents   = "events"   // one line for each desk.Event, until either side closes
)

// A Request is one line of the owner's.
type Request struct {
	Op        string `json:"op"`
	ID        string `json:"id,omitempty"`
	Principal string `json:"principal,omitempty"`
	Reason    string `json:"reason,omitempty"`
	For       string `json:"for,omitempty"` // once, digest or tool
	Name      string `json:"name,omitempty"`
	Sum       string `json:"sum,omitempty"`
	Bytes     int    `json:"bytes,omitempty"` // most of each stream; 0 is 64 KiB
	Approve   bool   `json:"approve,omitempty"`
	Now       bool   `json:"now,omitempty"`
}

// A Reply is one line of the server's: an error message, an event, or a
// result, which may be null.
type Reply struct {
	Error  string          `json:"error,omitempty"`
	Event  *desk.Event     `json:"event,omitempty"`
	Result json.RawMessage `json:"result,omitempty"`
}

// Status is how the process stands.
type Status struct {
	Process  string            `json:"process"` // sandboxd or sallyport-hub
	Version  string            `json:"version"`
	Started  time.Time         `json:"started"`
	Waiting  int               `json:"waiting"`
	Running  int               `json:"running"`
	Sessions int               `json:"sessions"`
	Paused   map[string]string `json:"paused"` // principal ("" for all) to the owner's reason
	Counters map[string]int64  `json:"counters"`
	Audit    bool              `json:"audit"` // whether calls are recorded
}

// Output is the end of what a command has written.
type Output struct {
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Running bool   `json:"running"`
}

// Upstream is one of the hub's servers.
type Upstream struct {
	Name        string   `json:"id"`
	Type        string   `json:"type"`
	State       string   `json:"state"`
	Reason      string   `json:"reason,omitempty"`
	Connections int      `json:"connections"`
	Withheld    []string `json:"withheld"` // tools whose definition changed
}

// Withheld are the changed tool definitions of one server, with the sum that
// stands for all of them, to the last character.
type Withheld struct {
	Server  string   `json:"server"`
	Sum     string   `json:"sum"`
	Changes []Change `json:"changes"`
}

// Change is one definition, as accepted and as it is now.
type Change struct {
	Tool string          `json:"tool"`
	Old  json.RawMessage `json:"old"`
	New  json.RawMessage `json:"new"`
}

// The bounds of a line in bytes: a request, and a reply, which may hold every
// call that waits.
const (
	maxRequest = 64 << 10
	maxReply   = 128 << 20
)
