// Command sallyport-login is an OAuth 2.1 authorization server for one owner, so that
// assistants which know OAuth only (Claude.ai, ChatGPT) can be let in. docs/login.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
	"github.com/sallyport-dev/sallyport/login/web"
)

const usage = `usage: sallyport-login [serve]     serve (docs/login.md)
       sallyport-login password    set the owner's password: the first line of input
       sallyport-login grants      list the connected clients
       sallyport-login revoke ID   withdraw a grant
       sallyport-login clients     list the known clients
       sallyport-login health      ask the running server

` + settings.Usage

// errUsage marks a wrong call or setting: exit code 2. All else that fails is 1.
var errUsage = errors.New("not started")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	syscall.Umask(0o077)
	err := run(ctx, append(os.Args[1:], "")[0], os.Args[min(2, len(os.Args)):])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sallyport-login:", err)
	}
	switch {
	case errors.Is(err, errUsage):
		os.Exit(2)
	case err != nil:
		os.Exit(1)
	}
}

func run(ctx context.Context, verb string, args []string) error {
	want := map[bool]int{true: 1}[verb == "revoke"]
	switch {
	case len(args) != want:
	case verb == "" || verb == "serve":
		return serve(ctx)
	case verb == "health":
		return health()
	case verb == "password" || verb == "grants" || verb == "clients" || verb == "revoke":
		return ask(Question{verb, strings.Join(args, "")}, os.Stdin, os.Stdout)
	case verb == "-h" || verb == "-help" || verb == "--help" || verb == "help":
		_, err := fmt.Print(usage)
		return err
	}
	return fmt.Errorf("%w: %q with %d arguments is no call of ours\n%s", errUsage, verb, len(args), usage)
}

// serve runs the server until ctx ends.
func serve(ctx context.Context) error {
	set, err := settings.Load(os.Getenv, true)
	if err != nil {
		return fmt.Errorf("%w:\n%w", errUsage, err)
	}
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
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
	log.Info("serving", "address", set.Addr, "issuer", set.Config.Issuer)
	if !set.Config.OwnHost {
		log.Info(`each consent asks for password or passkey again, since login.json does not say "ownHost": true (docs/login.md)`)
	}
	if code := site.SetupCode(); code != "" {
		log.Warn("nobody owns this login yet: type this one-time code into the issuer's page within ten minutes", "code", code)
	}
	go func() {
		for range time.Tick(time.Minute) { // as long as the process runs
			if err := issuer.Tidy(); err != nil {
				log.Error("keys or state cannot be kept", "error", err.Error())
			}
		}
	}()
	return site.Serve(ctx, listener)
}

// open opens state and audit and brings the keys up to date.
func open(set *settings.Settings, say func(string)) (*issue.Issuer, error) {
	kept, err := store.Open(set.StateDir, set.RevokedFile, say)
	if err != nil {
		return nil, err
	}
	issuer := &issue.Issuer{Config: &set.Config, Store: kept, Fetch: client.NewFetcher(), Now: time.Now}
	issuer.Audit, err = audit.Open(audit.Options{File: set.AuditFile, Stdout: os.Stdout, Version: "login"})
	if err = errors.Join(err, issuer.Tidy()); err != nil {
		return nil, errors.Join(err, kept.Close())
	}
	return issuer, nil
}

// health asks the server of LOGIN_ADDR.
func health() error {
	set, _ := settings.Load(os.Getenv, false) // only the address counts
	_, port, _ := net.SplitHostPort(set.Addr)
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{}} // no proxy
	resp, err := client.Get("http://127.0.0.1:" + port + "/healthz")
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("the server answers %s", resp.Status)
	}
	return err
}
