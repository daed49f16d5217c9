// Package wire is the protocol between the hub and the policy proxy.
//
// # The protocol
//
// The proxy listens on a unix socket and serves one peer uid. A connection is
// a dialogue of lines: the hub writes a [Request] as one line of JSON (at most
// [MaxLine] bytes), the proxy answers with a [Reply] as one line. The first
// request must be [VerbPolicy] with the hub's [Version]; anything else, an
// unknown key, a duplicate key or a longer line is refused and ends the
// connection. Requests on one connection are answered in order.
//
//	policy  handshake: Policy in the reply names version, instance and servers
//	ensure  create a fresh, not yet started container of Server; the entry's
//	        Hash must be the proxy's own (else [CodeStale]: one of the two has
//	        not yet seen an edit, try again in a few seconds) and Env must hold
//	        exactly the entry's env keys
//	attach  attach to the container that this connection ensured and start it;
//	        after the reply the connection is a stream (see below)
//	stop    stop and remove the container of Server, whoever ensured it; also
//	        for a server that has left the configuration
//	status  States in the reply: the containers of this instance
//
// After attach's reply, what the hub writes is the server's stdin, byte for
// byte; shutting down the writing half closes that stdin. What the proxy
// writes are frames ([ReadFrame], [WriteFrame]): stdout, stderr, and at last
// one [FrameEnd] whose payload is an [End]. A connection owns the container
// that it ensured: when it closes, the container is stopped and removed. One
// container per server: while another connection holds it, ensure answers
// [CodeBusy].
//
// A Docker daemon on the other end answers "HTTP/1.1 400": a hub that reads
// "HTTP/" instead of "{" has been given docker.sock itself and must refuse it.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/sallyport-dev/sallyport/internal/mcpjson"
	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// Version of the protocol. It changes whenever a request or a reply does.
const Version = 1

// MaxLine bounds a request and a reply, its newline included, in bytes.
const MaxLine = 64 << 10

// MaxEnv bounds the names and values of Request.Env together, in bytes.
const MaxEnv = 32 << 10

// The verbs of a Request.
const (
	VerbPolicy = "policy"
	VerbEnsure = "ensure"
	VerbAttach = "attach"
	VerbStop   = "stop"
	VerbStatus = "status"
)

// The codes of a Reply that is not OK.
const (
	CodeDenied  = "denied"  // never allowed; asking again cannot help
	CodeVersion = "version" // hub and proxy are of different versions
	CodeStale   = "stale"   // the two know different versions of the entry
	CodeBusy    = "busy"    // another connection holds the server
	CodeFailed  = "failed"  // the daemon or the image refused; Error says why
)

// Request of the hub. A field that the verb does not use must be absent.
type Request struct {
	Verb    string            `json:"verb"`
	Version int               `json:"version,omitempty"` // policy
	Server  string            `json:"server,omitempty"`  // ensure, attach, stop
	Hash    string            `json:"hash,omitempty"`    // ensure: Entry.Hash
	Env     map[string]string `json:"env,omitempty"`     // ensure: values, expanded
}

// Reply of the proxy.
type Reply struct {
	OK     bool             `json:"ok"`
	Code   string           `json:"code,omitempty"`
	Error  string           `json:"error,omitempty"`
	Policy *Policy          `json:"policy,omitempty"`
	States map[string]State `json:"states,omitempty"` // by server
}

// Policy is the proxy's side of the handshake.
type Policy struct {
	Version    int    `json:"version"`
	Instance   string `json:"instance"`
	APIVersion string `json:"apiVersion"` // of Docker, pinned by the proxy
	// Servers maps docker entries to their hashes. It and Broken are absent
	// where they would not fit into MaxLine.
	Servers map[string]string `json:"servers,omitempty"`
	// Broken maps entries that the proxy refuses to the reason.
	Broken map[string]string `json:"broken,omitempty"`
}

// State of one server's container.
type State struct {
	ID       string `json:"id"`
	State    string `json:"state"` // Docker's word: created, running, …
	Attached bool   `json:"attached"`
}

// End is why a stream ended.
type End struct {
	Reason   string `json:"reason"`
	ExitCode int    `json:"exitCode"` // -1: not known
}

// The reasons of an End.
const (
	EndExited  = "exited"         // by itself
	EndStopped = "stopped"        // by the verb stop or at the proxy's own end
	EndConfig  = "config changed" // the entry was edited or removed
	EndSecrets = "secrets changed"
	EndLost    = "lost" // the daemon broke the stream
)

// The kinds of a frame.
const (
	FrameStdout = 1
	FrameStderr = 2
	FrameEnd    = 3
)

// MaxFrame bounds the payload of a frame, in bytes.
const MaxFrame = 32 << 10

// WriteFrame writes one frame: a byte for the kind, the length of the payload
// in three bytes (big endian), the payload, in one Write.
func WriteFrame(w io.Writer, kind byte, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("frame of %d bytes", len(payload))
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(payload)), uint32(len(payload)))
	frame[0] = kind
	_, err := w.Write(append(frame, payload...))
	return err
}

// ReadFrame reads one frame into buffer, which holds at least MaxFrame bytes,
// and returns the part of it that is the payload. io.EOF between two frames
// is returned as it is; anything that WriteFrame cannot have written is an
// error.
func ReadFrame(r io.Reader, buffer []byte) (kind byte, payload []byte, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind, head[0] = head[0], 0
	size := binary.BigEndian.Uint32(head[:])
	if kind < FrameStdout || kind > FrameEnd || size > MaxFrame {
		return 0, nil, errors.New("not a frame of the proxy")
	}
	if _, err := io.ReadFull(r, buffer[:size]); err != nil {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return kind, buffer[:size], nil
}

// ParseRequest reads one line strictly: unknown and duplicate keys, other
// spellings and anything after the object are refused, which encoding/json
// would let pass.
func ParseRequest(line []byte) (*Request, error) {
	root, err := strictjson.Decode(line)
	if err != nil {
		return nil, err
	}
	o, ok := root.(*strictjson.Object)
	if !ok {
		return nil, errors.New("a request is an object")
	}
	q, r := &Request{}, &strictjson.Reader{}
	r.Fields(o, map[string]func(string, any){
		"verb":    func(f string, v any) { q.Verb = r.Text(f, v) },
		"version": func(f string, v any) { q.Version = int(r.Whole(f, v, 0, 1<<20)) },
		"server":  func(f string, v any) { q.Server = r.Text(f, v) },
		"hash":    func(f string, v any) { q.Hash = r.Text(f, v) },
		"env":     func(f string, v any) { q.Env = r.Pairs(f, v) },
	}, func(string) string { return "" })
	size := 0
	for name, value := range q.Env {
		size += len(name) + len(value)
	}
	if size > MaxEnv {
		r.Fail("env", "is larger than %d bytes", MaxEnv)
	}
	if q.Server != "" && !mcpjson.IsServerName(q.Server) {
		r.Fail("server", "is not a server's name")
	}
	uses := map[string]Request{
		VerbPolicy: {Version: 1}, VerbStatus: {}, VerbAttach: {Server: "x"},
		VerbStop: {Server: "x"}, VerbEnsure: {Server: "x", Hash: "x", Env: map[string]string{}},
	}
	use, found := uses[q.Verb]
	switch {
	case !found:
		r.Fail("verb", "must be policy, ensure, attach, stop or status")
	case (q.Version != 0) != (use.Version != 0), (q.Server != "") != (use.Server != ""),
		(q.Hash != "") != (use.Hash != ""), q.Env != nil && use.Env == nil:
		r.Fail("verb", "%s does not go with these fields", q.Verb)
	}
	return q, r.Err()
}
