// Command egress (sallyport-egress) is the only way of commands to the
// Internet. It takes connections from sandboxd on a unix socket, decides by
// the principal's list and its own ceiling, and records each of them.
package main

import (
	"context"
	"io"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/egress/proxy"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
	"github.com/sallyport-dev/sallyport/internal/process"
)

const name = "sallyport-egress"

const usage = `usage: sallyport-egress [serve]

settings (environment)
  EGRESS_SOCKET      [required]  where sandboxd connects; its folder must exist
  EGRESS_KEY_FILE    [required]  the key that a caller proves: 64 hex digits, mode 0600
  EGRESS_ALLOW       [required]  the ceiling, separated by commas: api.example.com, *.example.org:8443,
                                 http://deb.example.org, private:gitea.home:3000; docs/egress.md explains them
  EGRESS_AUDIT_FILE  [none]      a record of each connection, in a folder of its own; - is stdout
`

func main() {
	cli.Program{
		Name:  name,
		Intro: "The only way of commands to the Internet, by host name.",
		Start: "Without a command it serves. docs/egress.md.",
		Commands: []cli.Command{
			{Name: "serve", Help: "serve, until SIGTERM (the default)",
				Main: cli.Service(name, usage, readSettings, serve)},
			{Name: "health", Help: "ask the serving one; exit 0 if it answers",
				Main: cli.Service(name+" health", "usage: "+name+" health\n\nTakes the settings of serve.\n",
					readSettings,
					ask)},
		},
		Default: "serve",
	}.Main()
}

// serve runs until ctx ends.
func serve(ctx context.Context, s settings, stdout io.Writer, log *slog.Logger) error {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // what passes here is nobody else's to read
	record, err := audit.Open(audit.Options{File: s.auditFile, Stdout: stdout, Version: process.Version, Log: log})
	if err != nil {
		return err
	}
	defer record.Close()
	l, err := keysocket.Listen(s.socket, 0o600)
	if err != nil {
		return err
	}
	server := &proxy.Server{Ceiling: s.allow, Audit: record, Ready: func() {
		log.Info("listening", "socket", s.socket, "ceiling", s.allow.Texts(), "audit", s.auditFile)
	}}
	return server.Run(ctx, l, s.key.Sum())
}

// ask is what sandboxd and doctor do too: prove the key and get an answer.
func ask(ctx context.Context, s settings, _ io.Writer, _ *slog.Logger) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := egresswire.Client{Socket: s.socket, Key: s.key}
	_, err := client.Ask(ctx, egresswire.Check{})
	return err
}
