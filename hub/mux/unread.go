package mux

import (
	"bytes"
	"regexp"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// These find the id of a line that was meant as an answer, where libraries write it:
// at the begin or the end. Elsewhere it may be the id of anything.
var (
	idFirst = regexp.MustCompile(`^\[?\s*\{\s*(?:"jsonrpc"\s*:\s*"[^"]*"\s*,\s*)?"id"\s*:\s*("?[0-9]{1,18}"?)\s*[,}]`)
	idLast  = regexp.MustCompile(`"id"\s*:\s*("?[0-9]{1,18}"?)\s*(?:,\s*"jsonrpc"\s*:\s*"[^"]*"\s*)?\}\s*\]?$`)
)

// nearEnds is how far from the ends of a line an id is looked for, in bytes.
const nearEnds = 200

// unread ends the call whose answer a line was that cannot be read: nothing else will
// come, and its client would wait until the deadline.
func (l *Link) unread(line []byte, why error) {
	line = bytes.TrimSpace(line)
	if !bytes.Contains(line, []byte(`"jsonrpc"`)) ||
		!bytes.Contains(line, []byte(`"result"`)) && !bytes.Contains(line, []byte(`"error"`)) {
		return
	}
	at := idFirst.FindSubmatch(line[:min(len(line), nearEnds)])
	if at == nil && line[0] == '{' {
		at = idLast.FindSubmatch(line[max(0, len(line)-nearEnds):])
	}
	if at == nil {
		return
	}
	if c, sink := l.call(at[1]); c != nil && l.forget(c) {
		sink.Deliver(c.rewrite(jsonrpc.Fault(c.Message.ID(), jsonrpc.InternalError,
			"the server answered with a line that cannot be read: %v", why)), true)
	}
}
