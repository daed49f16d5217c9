// Command sallyport-run is edge and sandbox in one process, for one person at one machine: no
// Docker, no Traefik. A request meets the plugin's own handler, natively, and
// behind it the sandbox's, as it would with Traefik between them.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/process"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/plugin"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

func main() { os.Exit(start(process.Context(), os.Args[1:], os.Stdout, os.Stderr)) }

// start serves until ctx ends. Its exit codes are those of sandboxd.
func start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opt, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, Usage)
		return 0
	}
	if err == nil {
		err = opt.makeWorkspace()
	}
	if err == nil {
		err = opt.makeOwnerFiles()
	}
	if err != nil {
		fmt.Fprintf(stderr, "sallyport-run: %v\n", err)
		return 2
	}
	set, err := serve.Parse(nil, opt.lookup)
	if err == nil {
		err = apart(set.Workspace) // before the directory is given to anybody
	}
	if err != nil {
		fmt.Fprintf(stderr, "sallyport-run: %v\n", err)
		return 2
	}
	if code, ended := set.Reexec(); ended {
		return code
	}
	process.TuneMemory()
	switch err := run(ctx, opt, set, stdout, process.NewLogger(stderr)); {
	case errors.Is(err, serve.ErrJail):
		fmt.Fprintf(stderr, "sallyport-run: %v\n", err)
		if strings.Contains(err.Error(), "MCP_JAIL=group") {
			fmt.Fprintln(stderr, "With make, the setting goes in front: MCP_JAIL=group make run")
		}
		return 3
	case errors.Is(err, errEgress):
		fmt.Fprintf(stderr, "sallyport-run: %v\n", err)
		return 2
	case err != nil:
		fmt.Fprintf(stderr, "sallyport-run: %v\n", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, opt options, set serve.Settings, stdout io.Writer, log *slog.Logger) error {
	var secret string
	var l net.Listener
	defer func() {
		if l != nil {
			l.Close()
		}
	}()
	ceiling, err := opt.ceiling(ctx, log)
	if err != nil {
		return err
	}
	box, err := serve.Open(set, stdout, log, func() (err error) {
		if secret, err = opt.clientToken(set); err != nil {
			return err
		}
		if err := opt.giveEgress(set); err != nil {
			return err
		}
		l, err = listen(opt.addr)
		return err
	})
	if err != nil {
		return err
	}
	defer box.Close()
	stop, err := opt.serveEgress(ctx, set, ceiling, log)
	if err != nil {
		return err
	}
	defer stop()
	backend := box.Server.Handler()
	edge, err := plugin.New(ctx, behind(backend), edgeConfig(set, secret), "local")
	if err != nil {
		return err
	}
	opt.welcome(stdout, l.Addr().String(), set.BasePath, box.Workspace.Path)
	return httpd.Serve(ctx, l, throughEdge(edge, backend), log, box.Server.Close)
}

// edgeConfig is what traefik-dynamic.yml says of the sandbox, with the tokens
// of this process.
func edgeConfig(set serve.Settings, client string) *plugin.Config {
	c := plugin.CreateConfig()
	c.Backend = "sandbox"
	c.PathPrefix = set.BasePath
	c.BackendToken = set.Token
	c.Tokens = []plugin.Token{{Name: "local", Value: client, Tools: set.Tools}}
	if set.Network == jail.Allowlist {
		c.Tokens[0].Egress = []string{"*"} // all of what -egress names
	}
	c.AllowedOrigins = set.Origins
	c.LogLevel = "error" // it warns of literal tokens, and here they are nowhere but in memory
	return c
}

func listen(addr string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken, perhaps by another make run or by make up: stop that one (ss -ltnp shows it), or take another port: bin/sallyport-run -addr 127.0.0.1:18090", addr)
	}
	return l, err
}

// lookup is the environment of the sandbox: the owner's, except for what is
// decided here.
func (o options) lookup(name string) (string, bool) {
	switch name {
	case "MCP_ADDR":
		return o.addr, true
	case "MCP_WORKSPACE":
		return o.workspace, true
	case "MCP_REQUIRE_EDGE":
		return "true", true
	case "MCP_COMMAND_NETWORK":
		if o.egress != "" {
			return string(jail.Allowlist), true
		}
	case "MCP_AUTH_TOKEN":
		return o.backendToken, true
	case "MCP_AUTH_TOKEN_FILE", "MCP_IN_CONTAINER":
		return "", false
	}
	if value, given := os.LookupEnv(name); given {
		return value, true
	}
	value, ours := o.ownerFiles()[name]
	if abs, err := filepath.Abs(value); ours && err == nil {
		value = abs
	}
	return value, ours
}

// backendToken never leaves this process.
func backendToken() string { return rand.Text() + rand.Text() }
