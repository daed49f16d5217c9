// Command sallyport-login is an OAuth 2.1 authorization server for one owner, so that
// assistants which know OAuth only (Claude.ai, ChatGPT) can be let in. docs/login.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/health"
	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/process"
	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
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
			{Name: "password", Help: "set the owner's password: the first line of input", Main: verb("password", 0)},
			{Name: "grants", Help: "list the connected clients", Main: verb("grants", 0)},
			{Name: "revoke", Help: "withdraw one: its id in grants", Main: verb("revoke", 1)},
			{Name: "clients", Help: "list those that registered", Main: verb("clients", 0)},
			{Name: "health", Help: "ask a running server whether it is well", Main: health.Command(name, "LOGIN_ADDR", settings.DefaultAddr)},
		},
		Default: "serve",
	}.Main()
}

// errUsage marks a wrong setting that is found late: exit code 2. All else is 1.
var errUsage = errors.New("not started")

func serve(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	set, err := settings.Load(args, os.LookupEnv, true)
	if errors.Is(err, flag.ErrHelp) {
		new(settings.Settings).Table().Usage(stdout)
		return 0
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errUsage, err)
	} else {
		err = run(ctx, set, process.NewLogger(stderr))
	}
	return exit(err, stderr)
}

// exit says what went wrong, and with which code the process ends.
func exit(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, name+":", err)
	if errors.Is(err, errUsage) {
		return 2
	}
	return 1
}

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
		log.Info(`each consent asks for password or passkey again, since login.json does not say "ownHost": true (docs/login.md)`)
	}
	if code := site.SetupCode(); code != "" {
		log.Warn("nobody owns this login yet: type this one-time code into the issuer's page within ten minutes", "code", code)
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
