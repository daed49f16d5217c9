package proxy

import (
	"time"

	"github.com/sallyport-dev/sallyport/egress/decision"
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
	Duration time.Duration
	More     int // connections beyond a limit that have no record of their own
}

// A Recorder is the audit of connections. Begin comes before the first DNS
// query; its error means that nothing is dialled. End belongs to a Begin.
type Recorder interface {
	Begin(Connection) (id uint64, err error)
	End(id uint64, c Connection) error
	Refused(Connection) error
}
