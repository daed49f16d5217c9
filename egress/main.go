// Command egress (sallyport-egress) is the only way of commands to the
// Internet. It takes connections from sandboxd on a unix socket, decides by
// the principal's list and its own ceiling, and records each of them.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/egress/proxy"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
	"github.com/sallyport-dev/sallyport/internal/process"
)

const usage = `usage: sallyport-egress         serve, until SIGTERM
       sallyport-egress health  ask the serving one; exit 0 if it answers

settings (environment)
  EGRESS_SOCKET      [required]  where sandboxd connects; its folder must exist
  EGRESS_KEY_FILE    [required]  the key that a caller proves: 64 hex digits, mode 0600
  EGRESS_ALLOW       [required]  the ceiling, separated by commas: api.example.com, *.example.org:8443,
                                 http://deb.example.org, private:gitea.home:3000; docs/egress.md explains them
  EGRESS_AUDIT_FILE  [none]      a record of each connection, in a folder of its own; - is stdout
`

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)) }

// run returns the exit code: 0 fine, 1 failed, 2 wrong usage or settings.
func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	health := len(args) == 1 && args[0] == "health"
	if len(args) == 1 && (args[0] == "-h" || args[0] == "--help" || args[0] == "help") {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if len(args) > 0 && !health {
		fmt.Fprint(stderr, usage)
		return 2
	}
	s, err := readSettings(getenv)
	if err != nil {
		fmt.Fprintf(stderr, "sallyport-egress: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if health {
		err = ask(ctx, s)
	} else {
		err = serve(ctx, s, stdout, slog.New(slog.NewJSONHandler(stderr, nil)))
	}
	if err != nil {
		fmt.Fprintf(stderr, "sallyport-egress: %v\n", err)
		return 1
	}
	return 0
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
func ask(ctx context.Context, s settings) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client := egresswire.Client{Socket: s.socket, Key: s.key}
	_, err := client.Ask(ctx, egresswire.Check{})
	return err
}
