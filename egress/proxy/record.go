package proxy

import (
	"strconv"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// A Connection is what the audit says about one connection.
type Connection struct {
	Command  egresswire.Command
	Target   egressrule.Target // zero where none was understood
	Asked    string            // what the client asked for, where that is no target; at most 300 bytes
	Address  string            // what was dialled, ip:port
	Verdict  decision.Verdict
	Sent     int64 // bytes from the command
	Received int64 // bytes to the command
	More     int   // connections beyond a limit that have no record of their own
}

// call is c as the audit names it.
func (c Connection) call() audit.Call {
	call := audit.Call{Principal: c.Command.Principal, Session: c.Command.Session, Tool: "connection",
		Details: map[string]string{
			"command": c.Command.ID, "target": c.Target.String(), "scheme": c.scheme(),
		}}
	if c.Target.Name == "" {
		call.Details["target"] = printable(c.Asked)
	}
	if c.More > 0 {
		call.Details["more"] = strconv.Itoa(c.More)
	}
	return call
}

func (c Connection) scheme() string {
	if c.Target.Clear {
		return "http"
	}
	return "tls"
}

// outcome is how c ended.
func (c Connection) outcome() audit.Outcome {
	call := c.call()
	call.Details["address"] = c.Address
	call.Details["sent"], call.Details["received"] = strconv.FormatInt(c.Sent, 10), strconv.FormatInt(c.Received, 10)
	return audit.Outcome{Verdict: string(c.Verdict), Details: call.Details}
}
