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
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/httpd"
	"github.com/sallyport-dev/sallyport/internal/process"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/plugin"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

func main() { os.Exit(start(process.Context(), os.Args[1:], os.Stdout, os.Stderr)) }

// start serves until ctx ends. Its exit codes are those of sandboxd.
func start(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var made []string
	opt, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, Usage)
		return 0
	}
	if err == nil {
		err = opt.makeWorkspace()
	}
	if err == nil {
		err = apart(opt.workspace) // before anything is made, and before the directory is given to anybody
	}
	if err == nil {
		made, err = opt.makeOwnerFiles()
	}
	if err != nil {
		unmake(made)
		fmt.Fprintf(stderr, "sallyport-run: %v\n", err)
		return 2
	}
	set, err := serve.Parse(nil, opt.lookup)
	if err != nil {
		unmake(made)
		fmt.Fprintf(stderr, "sallyport-run: %s\n",
			strings.Replace(err.Error(), "sandboxd -h lists every setting", "docs/configuration.md lists every setting",
				1))
		return 2
	}
	if code, ended := set.Reexec(); ended {
		if code != 0 && !opt.served() {
			unmake(made)
		}
		return code
	}
	process.TuneMemory(process.Busy)
	err = run(ctx, opt, set, stdout, stderr)
	if errors.Is(err, serve.ErrJail) && strings.Contains(err.Error(), "MCP_JAIL=group") {
		err = fmt.Errorf("%w\nWith make, the setting goes in front: MCP_JAIL=group make run", err)
	}
	if err != nil && !opt.served() {
		unmake(made)
	}
	return cli.Report(stderr, "sallyport-run", err)
}

func run(ctx context.Context, opt options, set serve.Settings, stdout, stderr io.Writer) error {
	log := process.NewLogger(stderr)
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
	opt.warnOfHome(stderr)
	set.KeepModes = []string{opt.tokenFile}
	if info, err := os.Stat(set.Workspace); err == nil && os.Geteuid() == 0 && info.Sys().(*syscall.Stat_t).Uid == 0 {
		fmt.Fprintf(stdout, "%s belongs to root, and commands never run as root: the folder itself, not what is in "+
			"it, will be given to another user.\n", set.Workspace)
	}
	box, err := serve.Open(set, stdout, log, func() (err error) {
		if l, err = opt.listen(); err != nil { // before anything is made for it
			return err
		}
		if secret, err = opt.clientToken(set); err != nil {
			return err
		}
		if err := opt.giveEgress(set); err != nil {
			return err
		}
		return opt.remember(l.Addr().String()+set.BasePath, set.Workspace)
	})
	if l != nil { // it is ours
		defer os.Remove(opt.urlFile())
	}
	if err != nil && opt.served() {
		return errors.New("this installation is already being served" + opt.where() +
			": stop that one, or use a second clone (git clone) for a second workspace")
	}
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
	edge, err := plugin.New(ctx, behind(backend), edgeConfig(set, opt.edgeToken(secret, log)), "local")
	if err != nil {
		return err
	}
	opt.welcome(stdout, l.Addr().String(), set.BasePath, box.Workspace.Path, ceiling.Texts())
	return httpd.Serve(ctx, l, throughEdge(edge, backend), log, box.Server.Close)
}

// edgeConfig is what traefik-dynamic.yml says of the sandbox, with the tokens
// of this process.
func edgeConfig(set serve.Settings, client plugin.Token) *plugin.Config {
	c := plugin.CreateConfig()
	c.Backend = "sandbox"
	c.PathPrefix = set.BasePath
	c.BackendToken = set.Token
	client.Tools = set.Tools
	c.Tokens = []plugin.Token{client}
	if set.Network == jail.Allowlist {
		c.Tokens[0].Egress = []string{"*"} // all of what -egress names
	}
	c.AllowedOrigins = set.Origins
	c.LogLevel = "error" // it warns of literal tokens, and here the backend's is nowhere but in memory
	return c
}

func (o options) listen() (net.Listener, error) {
	l, err := net.Listen("tcp", o.addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%s is taken, perhaps by another make run or by make up: stop that one (ss -ltnp "+
			"shows it), or take another port: %s", o.addr, o.elsewhere())
	} else if err != nil {
		return nil, fmt.Errorf("%w: take another port: %s", err, o.elsewhere())
	}
	return l, nil
}

// elsewhere is the command line that serves the same on another port.
func (o options) elsewhere() string {
	line := "make run PORT=18090"
	if o.workspace != defaultWorkspace {
		line += " WORKSPACE=" + quote(o.workspace)
	}
	if o.egress != "" {
		line += " EGRESS=" + quote(o.egress)
	}
	return line
}

// served says whether another process serves with this installation's files: it
// holds the lock of the record of calls.
func (o options) served() bool {
	file, _ := o.lookup("MCP_AUDIT_FILE")
	return audit.Held(file)
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
