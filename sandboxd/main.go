// Command sandboxd lets an MCP client work inside one directory. Its
// subcommands are separate processes with separate trust.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/sandboxd/attack"
	"github.com/sallyport-dev/sallyport/sandboxd/doctor"
	"github.com/sallyport-dev/sallyport/sandboxd/health"
	"github.com/sallyport-dev/sallyport/sandboxd/hub"
	"github.com/sallyport-dev/sallyport/sandboxd/local"
	"github.com/sallyport-dev/sallyport/sandboxd/plan"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
	"github.com/sallyport-dev/sallyport/sandboxd/token"
)

// command is what one subcommand does with its arguments until ctx ends. It
// returns the exit code: 0 done, 1 found a failure, 2 wrong usage or settings,
// 3 the jail cannot be built.
type command struct {
	name, help string
	main       func(ctx context.Context, args []string, stdout, stderr io.Writer) int
}

var commands = []command{
	{"serve", "serve one directory to MCP clients", serve.Main},
	{"local", "both gates in one process, for this machine", local.Main},
	{"hub", "serve other people's MCP servers, each in a box of its own", hub.Main},
	{"token", "make, hash and check tokens", token.Main},
	{"health", "ask a running server whether it is well", health.Main},
	{"plan", "print what a taken part could do on this host", plan.Main},
	{"doctor", "walk the chain and name what is wrong with it", doctor.Main},
	{"attack", "try to get out of your own installation", attack.Main},
}

func main() {
	end := []os.Signal{os.Interrupt, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) { // as nohup wants it
		end = append(end, unix.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), end...)
	context.AfterFunc(ctx, func() {
		signal.Ignore(unix.SIGHUP) // of a closed terminal the shell and the kernel send one each
		stop()                     // a second one of the others ends the program at once
	})
	os.Exit(run(ctx, os.Args[1:]))
}

func run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return unknown("")
	}
	name := args[0]
	if name == "-h" || name == "-help" || name == "--help" {
		name = "help"
	}
	for _, c := range all() {
		if c.name == name {
			return c.main(ctx, args[1:], os.Stdout, os.Stderr)
		}
	}
	return unknown(name)
}
