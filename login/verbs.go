package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
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

	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

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
				row(g.ID, quoted(g.Client.Name), client.Target(g.Redirect), strings.Join(g.Tools, ","), strings.Join(g.Egress, ","),
					g.LastUsed.UTC().Format(time.RFC3339), g.Expires.UTC().Format(time.DateOnly))
			}
		})
	case "clients":
		row("CLIENT", "NAME", "RETURNS TO", "SINCE")
		o.issuer.Store.View(func(s *store.State) {
			var rows []string
			for _, c := range s.Clients {
				rows = append(rows, fmt.Sprintf("%s\t%s\t%s\t%s", c.ID, quoted(c.Name), strings.Join(c.Redirects, ","), c.Created.UTC().Format(time.RFC3339)))
			}
			slices.Sort(rows)
			row(strings.Join(rows, "\n"))
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

// verb is a command of the owner's with so many arguments.
func verb(name string, want int) func(context.Context, []string, io.Writer, io.Writer) int {
	return func(_ context.Context, args []string, stdout, stderr io.Writer) int {
		if len(args) != want {
			return exit(fmt.Errorf("%w: %s takes %d arguments, not %d", errUsage, name, want, len(args)), stderr)
		}
		return exit(ask(Question{name, strings.Join(args, "")}, os.Stdin, stdout), stderr)
	}
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
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(out, text)
	return err
}
