package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/rpc"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

// Owner is what the owner's verbs ask of a running server, over the socket in the state
// directory, which nobody else can enter (net/rpc); or of this process, where none runs.
type Owner struct {
	issuer  *issue.Issuer
	signOut func()
}

// Grants lists the connected clients.
func (o *Owner) Grants(_ string, to *[]store.Grant) error {
	o.issuer.Store.View(func(s *store.State) { *to = s.Sorted() })
	return nil
}

// Clients lists those that registered, and login.json's are in login.json.
func (o *Owner) Clients(_ string, to *[]store.Client) error {
	o.issuer.Store.View(func(s *store.State) {
		for _, c := range s.Clients {
			*to = append(*to, *c)
		}
	})
	slices.SortFunc(*to, func(a, b store.Client) int { return a.Created.Compare(b.Created) })
	return nil
}

// Revoke withdraws a grant.
func (o *Owner) Revoke(id string, _ *struct{}) error {
	found, err := o.issuer.Withdraw(id, "by the owner's command")
	if err == nil && !found {
		err = fmt.Errorf("there is no grant %q: sallyport-login grants lists them", id)
	}
	return err
}

// Password sets the password, of which only the hash travels, and ends every session.
func (o *Owner) Password(hash string, _ *struct{}) error {
	if !owner.ValidHash(hash) {
		return errors.New("not a hash of this release")
	}
	err := o.issuer.Note("password_set", "", "by", "command")
	if err == nil {
		err = o.issuer.Store.Update(func(s *store.State) error { s.Password = hash; return nil })
	}
	o.signOut()
	return err
}

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

// ask does a verb, and prints what came of it.
func ask(verb, arg string, in io.Reader, out io.Writer) error {
	set, err := settings.Load(os.Getenv, false)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if verb == "password" { // from the input, so that it does not stand in argv
		line, err := bufio.NewReader(io.LimitReader(in, owner.MaxPassword+2)).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if arg, err = owner.HashPassword(strings.TrimRight(line, "\r\n")); err != nil {
			return err
		}
	}
	server, err := rpc.Dial("unix", filepath.Join(set.StateDir, "owner.sock"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) {
		return alone(set, verb, arg, out)
	}
	if err != nil {
		return err
	}
	defer server.Close()
	return do(verb, arg, out, func(method string, to any) error { return server.Call("Owner."+method, arg, to) })
}

// alone does a verb on the locked state, where no server runs.
func alone(set *settings.Settings, verb, arg string, out io.Writer) error {
	issuer, err := open(set, func(line string) { fmt.Fprintln(os.Stderr, line) })
	if err != nil {
		return err
	}
	defer issuer.Store.Close()
	defer issuer.Audit.Close()
	o := &Owner{issuer, func() {}}
	return do(verb, arg, out, func(method string, to any) error {
		switch to := to.(type) {
		case *[]store.Grant:
			return o.Grants(arg, to)
		case *[]store.Client:
			return o.Clients(arg, to)
		}
		return map[string]func(string, *struct{}) error{"Revoke": o.Revoke, "Password": o.Password}[method](arg, nil)
	})
}

func do(verb, arg string, out io.Writer, call func(method string, to any) error) (err error) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(cells ...string) { fmt.Fprintln(table, strings.Join(cells, "\t")) }
	switch verb {
	case "grants":
		var grants []store.Grant
		err = call("Grants", &grants)
		row("GRANT", "CLIENT", "RETURNS TO", "TOOLS", "EGRESS", "LAST USED", "UNTIL")
		for _, g := range grants {
			row(g.ID, fmt.Sprintf("%q", g.Client.Name), client.Target(g.Redirect), strings.Join(g.Tools, ","), strings.Join(g.Egress, ","),
				g.LastUsed.UTC().Format(time.RFC3339), g.Expires.UTC().Format(time.DateOnly))
		}
	case "clients":
		var clients []store.Client
		err = call("Clients", &clients)
		row("CLIENT", "NAME", "RETURNS TO", "SINCE")
		for _, c := range clients {
			row(c.ID, fmt.Sprintf("%q", c.Name), strings.Join(c.Redirects, ","), c.Created.UTC().Format(time.RFC3339))
		}
	case "revoke":
		if err = call("Revoke", &struct{}{}); err == nil {
			row("Revoked.")
		}
	case "password":
		if err = call("Password", &struct{}{}); err == nil {
			row("The password is set.")
		}
	}
	return errors.Join(err, table.Flush())
}
