// Package egresswire is what sandboxd and `sallyport` say to egress on
// its socket (internal/keysocket). Behind the key the first line is a Hello in
// JSON:
//
//   - Command opens a lease: egress answers with a Reply that holds its ticket
//     and then with one Refusal per line, until either side closes. The lease
//     is the command's life: when it closes, so do its connections.
//   - Ticket is one connection of that command. The bytes behind the line are
//     the command's own: one request of an HTTP proxy's client.
//   - Past says, without an answer, what an ended command sent past its proxy.
//   - Check asks about rules, for doctor; the answer is one Reply.
package egresswire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// MaxLine bounds each line of JSON, in bytes.
const MaxLine = 128 << 10

// A Hello is the first line of a connection. Exactly one field is set.
type Hello struct {
	Command *Command `json:"command,omitempty"`
	Ticket  string   `json:"ticket,omitempty"`
	Past    *Past    `json:"past,omitempty"`
	Check   *Check   `json:"check,omitempty"`
}

// A Command is who asks. What it may reach is Rules (package egressrule) and,
// whatever it says here, at most egress's own ceiling.
type Command struct {
	Principal string   `json:"principal"`
	Session   string   `json:"session,omitempty"`
	ID        string   `json:"id"`
	Rules     []string `json:"rules"`
}

// Past is what a command sent to addresses and resolvers, which its network does
// not reach: a program of it does not use the proxy.
type Past struct {
	Principal string    `json:"principal"`
	Session   string    `json:"session,omitempty"`
	ID        string    `json:"id"`
	Count     int       `json:"count"` // connections and DNS queries
	At        time.Time `json:"at"`    // set by egress
}

// Check asks what the ceiling does to Rules and, with Resolve, whether names
// that both allow have public addresses.
type Check struct {
	Rules   []string `json:"rules"`
	Resolve bool     `json:"resolve,omitempty"`
}

// A Reply answers a Hello.
type Reply struct {
	Error   string   `json:"error,omitempty"`
	Ticket  string   `json:"ticket,omitempty"`
	Ceiling []string `json:"ceiling,omitempty"` // of a Check: EGRESS_ALLOW
	Checked []string `json:"checked,omitempty"` // of a Check: for each rule "" or what is wrong with it
	Past    []Past   `json:"past,omitempty"`    // of a Check: the last ones since egress started
}

// A Refusal is one connection that was not made, or not kept.
type Refusal struct {
	Target  string `json:"target"`         // name:port, empty where none was understood
	Verdict string `json:"verdict"`        // snake_case, as in the audit
	Rule    string `json:"rule,omitempty"` // the rule that is needed, where one would help
	Say     string `json:"say"`            // one sentence for whoever reads the command's result
}

// Write sends v as one line.
func Write(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(line) >= MaxLine {
		return fmt.Errorf("a line of %d bytes to egress: at most %d are allowed", len(line), MaxLine)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}

// Read reads one line into v. It takes no byte behind the newline out of r.
func Read(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > MaxLine {
			return fmt.Errorf("a line has more than %d bytes", MaxLine)
		}
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	return strictjson.Into(line, v)
}
