// Command sallyport-login is an OAuth 2.1 authorization server for one owner, so that
// assistants which know OAuth only (Claude.ai, ChatGPT) can be let in. docs/login.md.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/health"
	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/process"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
	"github.com/sallyport-dev/sallyport/login/web"
)

const name = "sallyport-login"

func main() {
	syscall.Umask(0o077)
	cli.Program{
		Name:  name,
		Intro: "Lets assistants in that know OAuth only: an authorization server for one owner.",
		Start: "Without a command it serves. To start: docs/login.md.",
		Commands: []cli.Command{
			{Name: "serve", Help: "serve assistants and the owner's pages (the default)", Main: serve},
			{Name: "password", Help: "set the owner's password: the first line of input", Main: verb("password", "")},
			{Name: "grants", Help: "list the connected clients", Main: verb("grants", "")},
			{Name: "revoke", Help: "withdraw one: its id in grants", Main: verb("revoke", "GRANT")},
			{Name: "clients", Help: "list those that registered", Main: verb("clients", "")},
			{Name: "health", Help: "ask if it is well", Main: health.Command(name, "LOGIN_ADDR", settings.DefaultAddr)},
		},
		Default: "serve",
	}.Main()
}

// errUsage marks a wrong setting that is found late: exit code 2. All else is 1.
var errUsage error = &cli.Fault{Code: 2, Text: "not started"}

var serve = cli.Server(name, func(w io.Writer) { new(settings.Settings).Table().Usage(w) },
	func(args []string) (*settings.Settings, error) {
		set, err := settings.Load(args, os.LookupEnv, true)
		if err != nil && !errors.Is(err, flag.ErrHelp) {
			err = fmt.Errorf("%w: %w", errUsage, err)
		}
		return set, err
	},
	func(ctx context.Context, set *settings.Settings, _ io.Writer, log *slog.Logger) error {
		return run(ctx, set, log)
	})

// run runs the server until ctx ends.
func run(ctx context.Context, set *settings.Settings, log *slog.Logger) error {
	issuer, err := open(set, func(line string) { log.Error(line) })
	if err != nil {
		return err
	}
	defer issuer.Store.Close()
	defer issuer.Audit.Close()
	site, err := web.New(issuer, log)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	listener, err := net.Listen("tcp", set.Addr)
	if err != nil {
		return err
	}
	if err := listen(set.StateDir, &Owner{issuer, site.SignOut}); err != nil {
		return err
	}
	if !set.Config.OwnHost {
		log.Info(`each consent asks for password or passkey again: "ownHost" is not true in login.json (docs/login.md)`)
	}
	if code := site.SetupCode(); code != "" {
		log.Warn("nobody owns this login yet: type this one-time code into its page within ten minutes", "code", code)
	}
	log.Info("serving", "address", set.Addr, "issuer", set.Config.Issuer, "version", process.Version)
	go func() {
		for range time.Tick(time.Minute) { // as long as the process runs
			if err := issuer.Tidy(); err != nil {
				log.Error("keys or state cannot be kept", "error", err.Error())
			}
		}
	}()
	return httpd.Serve(ctx, listener, site, log, func() {})
}

// open opens state and audit and brings the keys up to date.
func open(set *settings.Settings, say func(string)) (*issue.Issuer, error) {
	kept, err := store.Open(set.StateDir, set.RevokedFile, say)
	if err != nil {
		return nil, err
	}
	issuer := &issue.Issuer{Config: &set.Config, Store: kept, Fetch: client.NewFetcher(), Now: time.Now}
	issuer.Audit, err = audit.Open(audit.Options{File: set.AuditFile, Stdout: os.Stdout, Version: process.Version})
	if err = errors.Join(err, issuer.Tidy()); err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	return issuer, nil
}

// Owner does the owner's verbs: in the running server, over the socket in the state
// directory, which nobody else can enter (net/rpc); or in this process, where none runs.
type Owner struct {
	issuer  *issue.Issuer
	signOut func()
}

// Question is a verb and its argument: an id, or the hash of the new password.
type Question struct{ Verb, Arg string }

// Do answers with what is to be printed.
func (o *Owner) Do(q Question, to *string) (err error) {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 8, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }
	switch q.Verb {
	case "grants":
		row("GRANT", "CLIENT", "RETURNS TO", "TOOLS", "EGRESS", "LAST USED", "UNTIL")
		o.issuer.Store.View(func(s *store.State) {
			for _, g := range s.Sorted() {
				tools, egress := strings.Join(g.Tools, ","), strings.Join(g.Egress, ",")
				row(g.ID, quoted(g.Client.Name), client.Target(g.Redirect), tools, egress,
					g.LastUsed.UTC().Format(time.RFC3339), g.Expires.UTC().Format(time.DateOnly))
			}
		})
	case "clients":
		row("CLIENT", "NAME", "RETURNS TO", "SINCE")
		o.issuer.Store.View(func(s *store.State) {
			for _, id := range slices.Sorted(maps.Keys(s.Clients)) {
				c := s.Clients[id]
				row(c.ID, quoted(c.Name), strings.Join(c.Redirects, ","), c.Created.UTC().Format(time.RFC3339))
			}
		})
	case "revoke":
		var found bool
		if found, err = o.issuer.Withdraw(q.Arg, "by sallyport-login revoke"); err == nil && !found {
			err = fmt.Errorf("there is no grant %q: sallyport-login grants lists them", q.Arg)
		}
		row("Revoked.")
	case "password":
		if err = o.issuer.Note("password_set", "", "by", "command"); err == nil && owner.ValidHash(q.Arg) {
			err = o.issuer.Store.Update(func(s *store.State) error { s.Password = q.Arg; return nil })
		}
		o.signOut()
		row("The password is set.")
	}
	err = errors.Join(err, table.Flush())
	*to = text.String()
	return err
}

// quoted is a name that somebody else chose, as it can be shown on a terminal.
func quoted(name string) string { return terminal.Line(strconv.Quote(name), 400) }

// listen answers the owner's verbs. Whoever holds the state's lock may replace the socket
// that an earlier process left.
func listen(dir string, o *Owner) error {
	path := filepath.Join(dir, "owner.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	server := rpc.NewServer()
	if err = errors.Join(err, server.Register(o)); err == nil {
		go server.Accept(l)
	}
	return err
}

// verb is a command of the owner's, with what stands for its arguments.
func verb(verb, args string) cli.Main {
	want := len(strings.Fields(args))
	usage := strings.TrimSpace("usage: "+name+" "+verb+" "+args) +
		"\n\nTakes LOGIN_STATE_DIR, LOGIN_REVOKED_FILE and " +
		"LOGIN_AUDIT_FILE from the environment, as the server does.\n"
	return cli.Tool(name+" "+verb, usage, func(args []string) (q Question, err error) {
		f := cli.Flags(verb)
		if err = f.Parse(args); err == nil && f.NArg() != want {
			err = fmt.Errorf("it takes %d arguments, not %d", want, f.NArg())
		}
		return Question{verb, f.Arg(0)}, err
	}, func(_ context.Context, q Question, stdout, _ io.Writer) (int, error) {
		return 0, ask(q, os.Stdin, stdout)
	})
}

// ask does a verb, and prints what came of it.
func ask(q Question, in io.Reader, out io.Writer) error {
	set, err := settings.Load(nil, os.LookupEnv, false)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if q.Verb == "password" { // from the input, so that it does not stand in argv
		line, err := bufio.NewReader(io.LimitReader(in, owner.MaxPassword+2)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if q.Arg, err = owner.HashPassword(strings.TrimRight(line, "\r\n")); err != nil {
			return err
		}
	}
	var text string
	server, err := rpc.Dial("unix", filepath.Join(set.StateDir, "owner.sock"))
	switch {
	case err == nil:
		err = server.Call("Owner.Do", q, &text)
	case errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		var alone *issue.Issuer
		if alone, err = open(set, func(line string) { fmt.Fprintln(os.Stderr, line) }); err == nil {
			err = (&Owner{alone, func() {}}).Do(q, &text)
			err = errors.Join(err, alone.Audit.Close(), alone.Store.Close())
		}
	}
	if err == nil {
		_, err = fmt.Fprint(out, text)
	}
	return err
}
