package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/audit"
)

// progressEvery is how often a client that asked for it hears that its call
// still waits.
const progressEvery = 5 * time.Second

// approve waits for the owner where the call must; nil lets it run.
func (d *Desk) approve(t *Ticket) *Refusal {
	if !t.call.Ask {
		return nil
	}
	if d.unattended {
		return &Refusal{"unattended", "This call needs the owner's approval, which this server cannot ask for: " +
			"nothing was run. Do not repeat it; tell the user: start the server with MCP_OWNER_SOCKET and " +
			"MCP_OWNER_KEY_FILE, or grant the tool without ask:."}
	}
	r, refusal := d.question(t.call)
	if refusal != nil {
		return refusal
	}
	if t.call.Progress != nil {
		defer t.tell()()
	}
	v := d.approvals.Wait(t.ctx, r)
	if v.Outcome != approval.Approved {
		return t.unapproved(v)
	}
	// The file as it is now must be the one that was decided on.
	if t.call.File != nil && v.ID != "" {
		if now, err := t.call.File(); err != nil || now.Digest != r.File {
			return &Refusal{"file_changed", "The file has changed since the owner was asked, so the approval does " +
				"not fit any more: nothing was written. " +
				"Read the file again and repeat the call."}
		}
	}
	return nil
}

// question is what the owner is asked for c.
func (d *Desk) question(c Call) (approval.Request, *Refusal) {
	r := approval.Request{Session: c.Session, Arguments: c.Arguments, Hold: approval.Hold,
		Key: approval.Key{Principal: c.Principal, Server: c.Server, Tool: c.Tool}}
	if c.Progress != nil {
		r.Hold = approval.HoldProgress
	}
	var err error
	if r.Digest, err = d.digest(c.Arguments); err != nil {
		return r, &Refusal{"unclear", fmt.Sprintf("This call waits for the owner's approval, and %v: nothing was run.",
			err)}
	}
	if c.File != nil {
		file, err := c.File()
		if err != nil {
			return r, &Refusal{"error", err.Error()}
		}
		r.File, r.Preview = file.Digest, file.Preview
	}
	return r, nil
}

// digest is the audit's; without an audit the canonical arguments themselves.
func (d *Desk) digest(arguments []byte) (string, error) {
	if d.audit != nil {
		return d.audit.Digest(arguments)
	}
	canonical, err := audit.Canonical(arguments)
	return string(canonical), err
}

// tell keeps the client up to date until the returned function is called.
func (t *Ticket) tell() (stop func()) {
	ctx, cancel := context.WithCancel(t.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for begin := time.Now(); ; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				t.call.Progress(int(time.Since(begin).Seconds()))
			}
		}
	}()
	return func() { cancel(); <-done }
}

// unapproved puts a verdict that runs nothing into words.
func (t *Ticket) unapproved(v approval.Verdict) *Refusal {
	switch v.Outcome {
	case approval.Denied:
		text := "The owner denied this call: nothing was run."
		if v.Reason != "" {
			text += " Their reason: " + v.Reason
		}
		return &Refusal{"denied", text}
	case approval.Pending:
		return &Refusal{"pending", fmt.Sprintf("This call waits for the owner's approval (%s) and nothing was run "+
			"yet. Tell the user; they can decide with \"sallyport approve\". Then make exactly the same call again: "+
			"until %s UTC it attaches to this request and gets the decision.", v.ID, v.Until.UTC().Format("15:04:05"))}
	case approval.Expired:
		return &Refusal{"expired", "The owner did not decide in time: nothing was run. Ask the user whether they " +
			"want it, then make the call again."}
	case approval.TooMany:
		return &Refusal{"too_many_waiting", fmt.Sprintf("%d calls wait for the owner's approval already: nothing was "+
			"run. Wait until some are decided.", approval.MaxWaiting)}
	case approval.Unclear:
		return &Refusal{"unclear", "The arguments of this call can be read in two ways, so no approval could bind " +
			"them: nothing was run."}
	}
	if t.Stopped() {
		return stopped
	}
	return &Refusal{"canceled", "The call was cancelled while it waited for the owner's approval: nothing was run."}
}

// Waiting lists what waits for the owner.
func (d *Desk) Waiting() []approval.Waiting { return d.approvals.Waiting() }

// Decide settles what waits. It returns nil only if this decision is the one
// that counts, and only once it is recorded.
func (d *Desk) Decide(x approval.Decision) error {
	var decided approval.Waiting
	err := d.approvals.Decide(x, func(w approval.Waiting) error {
		decided = w
		outcome := map[bool]string{true: "approved", false: "denied"}[x.Approve]
		return d.audit.Event("decision", audit.Call{Principal: w.Principal, Session: w.Session, Server: w.Server,
			Tool: w.Tool, Arguments: []byte(w.Arguments)},
			map[string]string{"id": w.ID, "outcome": outcome, "for": x.Scope, "reason": x.Reason}, true)
	})
	if err == nil {
		d.publish(Event{Kind: "decided", ID: x.ID, Principal: decided.Principal, Server: decided.Server,
			Tool: decided.Tool})
	}
	return err
}

// WaitingProgress is the progress that a waiting call reports: it grows, and
// stays below whatever the call itself will report once it runs, since MCP
// wants progress to increase.
func WaitingProgress(seconds int) float64 { return float64(seconds) / 1e6 }
