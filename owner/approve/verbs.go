package approve

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/session"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/client"
)

// verb is one command line.
type verb struct {
	Sockets
	ctx            context.Context
	args           []string
	stdout, stderr io.Writer
	json           bool
	scope          string
	now            bool
	bytes          int
}

const flags = `
Flags: -socket PATH  of a server, may be repeated (default: MCP_OWNER_SOCKET, else .sallyport/run/*/owner.sock)
       -key-file FILE  its key (default: MCP_OWNER_KEY_FILE, else .sallyport/owner/key)
       -json           one JSON array instead of text
Exit code: 0 done, 1 nothing was done, 2 no server answers or wrong usage.
`

// command makes the Main of a verb. run gets between least and most arguments.
func command(usage string, least, most int, run func(*verb) error) cli.Main {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) int {
		v := &verb{ctx: ctx, stdout: stdout, stderr: stderr, scope: approval.Once}
		err := v.parse(args)
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(stdout, "usage: sallyport "+usage+"\n"+flags)
			return 0
		}
		if err == nil && (len(v.args) < least || len(v.args) > most) {
			err = errors.New("usage: sallyport " + usage)
		}
		if err == nil {
			err = v.Fill()
		}
		if err == nil {
			err = run(v)
		}
		if err == nil {
			return 0
		}
		fmt.Fprintln(stderr, "sallyport:", terminal.Escape(err.Error()))
		if errors.Is(err, errNotDone) {
			return 1
		}
		return 2
	}
}

// parse takes flags before and after the arguments.
func (v *verb) parse(args []string) error {
	fs := cli.Flags("")
	v.Sockets.Flags(fs)
	fs.BoolVar(&v.json, "json", false, "")
	fs.BoolVar(&v.now, "now", false, "")
	fs.Func("bytes", "", config.Number(&v.bytes, 0, 1<<30))
	fs.Func("for", "", config.OneOf(&v.scope, approval.Once, approval.Digest, approval.Tool))
	for len(args) > 0 {
		if err := fs.Parse(args); err != nil {
			return err
		}
		if args = fs.Args(); len(args) > 0 {
			v.args, args = append(v.args, args[0]), args[1:]
		}
	}
	return nil
}

func (v *verb) array(list []listed) error {
	raw, err := json.MarshalIndent(list, "", "  ")
	if err == nil {
		_, err = fmt.Fprintln(v.stdout, terminal.JSON(string(raw)))
	}
	return err
}

// row prints one line of what servers said.
func (v *verb) row(format string, cells ...any) {
	fmt.Fprintln(v.stdout, client.Fold(v.stdout, terminal.Escape(fmt.Sprintf(format, cells...))))
}

func (v *verb) arg(i int) string {
	if i < len(v.args) {
		return v.args[i]
	}
	return ""
}

// Approve lists what waits, or approves it.
var Approve = command("approve [ID [-for once|digest|tool]]   lists what waits; approves this call once, this exact "+
	"call for 15 minutes, or its tool for 15 minutes",
	0, 1, func(v *verb) error {
		if len(v.args) == 0 {
			return v.pending()
		}
		err := v.onlyOne(v.args[0])
		if err == nil {
			err = v.first(v.ctx, v.stderr, ownersock.Request{Op: ownersock.OpDecide, ID: v.args[0], Approve: true,
				For: v.scope})
		}
		if err == nil {
			fmt.Fprintf(v.stdout, "approved %s (%s)\n", v.args[0], v.scope)
		}
		return err
	})

// onlyOne refuses an id under which several servers have a call. A compromised one could
// show a harmless call under the id of another's, which the owner would then approve.
func (v *verb) onlyOne(id string) error {
	list, _, err := gather[approval.Waiting](v.ctx, &v.Sockets, io.Discard, ownersock.OpPending)
	n := 0
	for _, q := range list {
		if q.ID == id {
			n++
		}
	}
	if err == nil && n > 1 {
		return fmt.Errorf("%w: %d calls wait under %s, so one of the servers is not honest; look at them with "+
			"\"sallyport watch\"", errNotDone, n, id)
	}
	return err
}

func (v *verb) pending() error {
	list, array, err := gather[approval.Waiting](v.ctx, &v.Sockets, v.stderr, ownersock.OpPending)
	if err != nil {
		return err
	}
	if v.json {
		return v.array(array)
	}
	if len(list) == 0 {
		fmt.Fprintln(v.stdout, "Nothing waits for you.")
	}
	for _, q := range list {
		Show(v.stdout, q)
		v.row("  To decide: sallyport approve %s [-for digest|tool], or sallyport deny %s [REASON]", q.ID, q.ID)
		fmt.Fprintln(v.stdout)
	}
	return nil
}

// Deny denies what waits.
var Deny = command("deny ID [REASON]   denies the call; its client is told the reason", 1, 100, func(v *verb) error {
	err := v.first(v.ctx, v.stderr, ownersock.Request{Op: ownersock.OpDecide, ID: v.args[0],
		Reason: strings.Join(v.args[1:], " ")})
	if err == nil {
		fmt.Fprintf(v.stdout, "denied %s\n", v.args[0])
	}
	return err
})

// PS lists calls and commands.
var PS = command("ps   lists what runs and waits: calls, and commands in the background", 0, 0, func(v *verb) error {
	list, array, err := gather[desk.Entry](v.ctx, &v.Sockets, v.stderr, ownersock.OpRunning)
	if err != nil {
		return err
	}
	if v.json {
		return v.array(array)
	}
	fmt.Fprintf(v.stdout, "%-8s %-10s %8s  %-20s %s\n", "ID", "STATE", "FOR", "PRINCIPAL", "WHAT")
	for _, e := range list {
		v.row("%-8s %-10s %8s  %-20s %s", e.ID, e.State, Since(e.Started), terminal.Line(e.Principal, 40), What(e, 200))
	}
	return nil
})

// What is a call in a few words, at most limit bytes.
func What(e desk.Entry, limit int) string {
	tool := e.Tool
	if e.Server != "" {
		tool = e.Server + "/" + e.Tool
	}
	if e.Command != "" {
		tool += ": " + e.Command
	}
	return terminal.Line(tool, limit)
}

// Since is a time ago, short.
func Since(t time.Time) string { return time.Since(t).Round(time.Second).String() }

// Output prints what a command has written.
var Output = command("output ID [-bytes N]   prints the end of what a command has written, at most N bytes of each "+
	"stream (default 65536)", 1, 1, func(v *verb) error {
	found := false
	var out ownersock.Output
	err := v.each(v.ctx, v.stderr, func(_ string, c *ownersock.Client) error {
		var refused ownersock.RefusedError
		if found {
			return nil
		}
		err := c.Do(ownersock.Request{Op: ownersock.OpOutput, ID: v.args[0], Bytes: v.bytes}, &out)
		if errors.As(err, &refused) {
			return nil
		}
		found = err == nil
		return err
	})
	switch {
	case err != nil:
		return err
	case !found:
		return fmt.Errorf("%w: there is no command %s; \"sallyport ps\" lists those that run", errNotDone, v.args[0])
	case v.json:
		one := element("", out)
		one["id"] = v.args[0]
		delete(one, "process")
		return v.array([]listed{one})
	}
	fmt.Fprintln(v.stdout, terminal.Wrap(out.Stdout))
	if out.Stderr != "" {
		fmt.Fprintf(v.stdout, "--- stderr\n%s\n", terminal.Wrap(out.Stderr))
	}
	return nil
})

// Stop ends a call, command or session.
var Stop = command("stop ID [-now]   ends a call, command or session; -now gives a command no time to end by itself", 1,
	1, func(v *verb) error {
		err := v.first(v.ctx, v.stderr, ownersock.Request{Op: ownersock.OpStop, ID: v.args[0], Now: v.now})
		if err == nil {
			fmt.Fprintf(v.stdout, "stopped %s\n", v.args[0])
		}
		return err
	})

// Pause refuses new calls everywhere.
var Pause = command("pause [PRINCIPAL [REASON]]   refuses new calls, of everybody or of one principal (token:poke), "+
	"until resume", 0, 100, func(v *verb) error {
	principal, reason := v.arg(0), ""
	if len(v.args) > 1 {
		reason = strings.Join(v.args[1:], " ")
	}
	if principal == "" {
		return v.all(ownersock.Request{Op: ownersock.OpPause, Reason: reason}, "paused: everybody")
	}
	err := v.all(ownersock.Request{Op: ownersock.OpPause, Principal: principal, Reason: reason}, "paused: "+principal)
	if err == nil {
		v.warnOfStranger(principal)
	}
	return err
})

// warnOfStranger says that a principal that was paused has no session: its name may
// be misspelt, and then nobody is paused.
func (v *verb) warnOfStranger(principal string) {
	list, _, err := gather[session.Info](v.ctx, &v.Sockets, io.Discard, ownersock.OpSessions)
	if err != nil || slices.ContainsFunc(list, func(s session.Info) bool { return s.Principal == principal }) {
		return
	}
	fmt.Fprintf(v.stderr, "sallyport: no session of %s is open; principals look like token:local, and sallyport "+
		"sessions lists those that are here\n", terminal.Escape(principal))
}

// Resume ends a pause.
var Resume = command("resume [PRINCIPAL]   ends a pause", 0, 1, func(v *verb) error {
	return v.all(ownersock.Request{Op: ownersock.OpResume, Principal: v.arg(0)}, "resumed")
})

// all sends r to every server. It is errNotDone if none has done it.
func (v *verb) all(r ownersock.Request, done string) error {
	var said []string
	some := false
	err := v.each(v.ctx, v.stderr, func(process string, c *ownersock.Client) error {
		var refused ownersock.RefusedError
		err := c.Do(r, nil)
		if errors.As(err, &refused) {
			said = append(said, process+": "+err.Error())
			return nil
		}
		if err == nil {
			some = true
			v.row("%s: %s", process, done)
		}
		return err
	})
	if err == nil && !some {
		return fmt.Errorf("%w: %s", errNotDone, strings.Join(said, "; "))
	}
	return err
}

// Sessions lists the open MCP sessions.
var Sessions = command("sessions   lists the open MCP sessions", 0, 0, func(v *verb) error {
	list, array, err := gather[session.Info](v.ctx, &v.Sockets, v.stderr, ownersock.OpSessions)
	if err != nil {
		return err
	}
	if v.json {
		return v.array(array)
	}
	fmt.Fprintf(v.stdout, "%-14s %-30s %8s  %s\n", "ID", "PRINCIPAL", "OPEN NOW", "LAST")
	for _, s := range list {
		v.row("%-14s %-30s %8d  %s ago", s.Name, terminal.Line(s.Principal, 60), s.Requests, Since(s.Last))
	}
	return nil
})

// Servers lists the hub's servers.
var Servers = command("servers   lists the hub's servers and what is withheld of each", 0, 0, func(v *verb) error {
	list, array, err := gather[ownersock.Upstream](v.ctx, &v.Sockets, v.stderr, ownersock.OpServers)
	if err != nil {
		return err
	}
	if v.json {
		return v.array(array)
	}
	if len(list) == 0 {
		fmt.Fprintln(v.stdout, "There are none: the hub serves servers (docs/hub.md).")
		return nil
	}
	fmt.Fprintf(v.stdout, "%-20s %-8s %-10s %s\n", "SERVER", "TYPE", "STATE", "")
	for _, s := range list {
		rest := s.Reason
		if len(s.Withheld) > 0 {
			rest += fmt.Sprintf(" %d definitions withheld: sallyport accept %s", len(s.Withheld), s.Name)
		}
		v.row("%-20s %-8s %-10s %s", terminal.Line(s.Name, 60), s.Type, s.State,
			terminal.Line(strings.TrimSpace(rest), 200))
	}
	return nil
})
