package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/owner/token"
	"github.com/sallyport-dev/sallyport/plugin"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

// Usage is the help text of the command.
const Usage = `usage: sallyport-run [-workspace DIR] [-addr 127.0.0.1:PORT] [-token-file FILE] [-egress LIST]

Serves one directory to MCP clients on this machine, with edge and sandbox in one
process: the plugin's handler and, behind it, the sandbox. "make run" builds and
starts it.

  -workspace DIR     what the tools work in (default workspace, the only one
                     that is made if missing)
  -addr HOST:PORT    a loopback address (default 127.0.0.1:18080)
  -token-file FILE   the client token, made once if missing
                     (default .sallyport/edge/client-token); the records, the
                     owner's key and socket stay in .sallyport of this directory
  -egress LIST       hosts that commands may reach, as rules of egress and names
                     of package managers: go,npm,pip,cargo,apt,api.example.com
                     (default none; docs/egress.md)

The settings of "sandboxd" apply as environment variables (MCP_TOOLS,
MCP_JAIL, MCP_COMMAND_NETWORK, ...), except those for address, workspace and
backend token. Each decision of the edge is one line of JSON on stdout.
`

// state is the folder of the installation's private files, in the working directory
// wherever the client token is.
func (o options) state() string { return ".sallyport" }

// ownerFiles are where calls are recorded and the owner's socket is, unless the
// environment says otherwise.
func (o options) ownerFiles() map[string]string {
	files := map[string]string{
		"MCP_AUDIT_FILE":     filepath.Join(o.state(), "audit", "sandboxd", "audit.jsonl"),
		"MCP_OWNER_SOCKET":   filepath.Join(o.state(), "run", "sandboxd", "owner.sock"),
		"MCP_OWNER_KEY_FILE": filepath.Join(o.state(), "owner", "key"),
	}
	maps.Copy(files, o.egressFiles())
	return files
}

// makeOwnerFiles makes their folders, and the key once, and returns what it made. They belong to the owner
// of the workspace, as with "make env".
func (o options) makeOwnerFiles() (made []string, err error) {
	for setting, path := range o.ownerFiles() {
		if _, given := os.LookupEnv(setting); given {
			continue
		}
		for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
			if _, err := os.Stat(dir); err == nil {
				break
			}
			made = append(made, dir)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return made, err
		}
		if setting != "MCP_OWNER_KEY_FILE" && setting != "MCP_EGRESS_KEY_FILE" {
			continue
		}
		switch err := keysocket.Create(path); {
		case err == nil:
			made = append(made, path)
		case !errors.Is(err, fs.ErrExist):
			return made, err
		}
	}
	err = giveTo(o.workspace, made...)
	made = append(made, filepath.SplitList(os.Getenv(madeBefore))...)
	return made, errors.Join(err, os.Setenv(madeBefore, strings.Join(made, string(filepath.ListSeparator))))
}

// madeBefore tells this program, when the jail has it execute itself again, what
// this start has made.
const madeBefore = "SALLYPORT_RUN_MADE"

// unmake removes what makeOwnerFiles has made for a start that is refused.
func unmake(made []string) {
	slices.SortFunc(made, func(a, b string) int { return len(b) - len(a) })
	for _, name := range made {
		_ = os.Remove(name) // a folder only where it is empty
	}
}

const (
	defaultWorkspace = "workspace"
	defaultAddr      = "127.0.0.1:18080"
	defaultToken     = ".sallyport/edge/client-token"
)

type options struct {
	workspace, addr, tokenFile string
	backendToken               string
	egress                     string // names of tools and rules; empty: commands have no network
}

func parse(args []string) (options, error) {
	o := options{backendToken: backendToken()}
	f := flag.NewFlagSet("sallyport-run", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.StringVar(&o.workspace, "workspace", defaultWorkspace, "")
	f.StringVar(&o.addr, "addr", defaultAddr, "")
	f.StringVar(&o.tokenFile, "token-file", defaultToken, "")
	f.StringVar(&o.egress, "egress", "", "")
	if err := f.Parse(args); err != nil {
		return o, fmt.Errorf("%w; see sallyport-run -h", err)
	}
	if f.NArg() > 0 {
		return o, errors.New("it takes flags only; see sallyport-run -h")
	}
	if o.workspace == "" {
		o.workspace = defaultWorkspace // make run WORKSPACE=
	}
	if o.egress == "off" { // as make up has it
		o.egress = ""
	}
	if rest, ok := strings.CutPrefix(o.workspace, "~/"); ok { // not every shell expands it after make's =
		o.workspace = filepath.Join(os.Getenv("HOME"), rest)
	}
	host, _, err := net.SplitHostPort(o.addr)
	if a, bad := netip.ParseAddr(host); err != nil || bad != nil || !a.IsLoopback() {
		return o, fmt.Errorf("-addr %q: a loopback address and a port, such as %s; to serve others put Traefik in "+
			"front (make up)", o.addr, defaultAddr)
	}
	return o, nil
}

// makeWorkspace makes the default one, so that a fresh clone starts. A
// directory that the owner named must exist: a typing error must not create one.
func (o options) makeWorkspace() error {
	info, err := os.Stat(o.workspace)
	switch {
	case err == nil && !info.IsDir():
		return fmt.Errorf("-workspace %s is not a directory", o.workspace)
	case err == nil:
		return nil
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case o.workspace != defaultWorkspace:
		return fmt.Errorf("the workspace %s does not exist: make it first (mkdir -p), or name another: make run "+
			"WORKSPACE=~/Development", o.workspace)
	}
	if err := os.Mkdir(o.workspace, 0o755); err != nil {
		return err
	}
	return giveTo(".", o.workspace) // "sudo make run" must not leave a directory of root's
}

// clientToken reads the client token, made at the first start. It belongs to
// the owner of the workspace, as with "make env".
func (o options) clientToken(set serve.Settings) (string, error) {
	dir := filepath.Dir(o.tokenFile)
	var made []string
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); err == nil || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := o.outOfReach(set); err != nil {
		return "", err
	}
	err := token.Create(o.tokenFile)
	if err == nil {
		made = append(made, o.tokenFile)
	} else if !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	if o.tokenFile == defaultToken { // the edge reads it again as the owner of the workspace
		made = append(made, o.state(), dir, o.tokenFile)
	}
	if err := giveTo(set.Workspace, made...); err != nil {
		return "", err
	}
	if info, err := os.Stat(o.tokenFile); err == nil && info.Mode().Perm()&0o077 != 0 {
		return "", fmt.Errorf("the token file %s can be opened by others (mode %04o): remove it, and the next start "+
			"makes a new one", o.tokenFile, info.Mode().Perm())
	}
	secret, err := config.ReadToken(o.tokenFile)
	if err != nil {
		return "", fmt.Errorf("%w. Remove the file, and the next start makes a new one; if another user made it, "+
			"perhaps root, chown it or name another with -token-file", err)
	}
	return secret, nil
}

// edgeToken is the client token as the edge gets it: the file, as with Traefik, which
// the edge reads again, so that a token is replaced and withdrawn without a restart.
// This process may have become another user since secret was read.
func (o options) edgeToken(secret string, log *slog.Logger) plugin.Token {
	file, err := filepath.Abs(o.tokenFile)
	if err == nil {
		_, err = config.ReadToken(file)
	}
	if err != nil {
		log.Warn("the token was read at the start only, so another one needs a restart: the workspace's owner may "+
			"not read its file", "error", err)
		return plugin.Token{Name: "local", Value: secret}
	}
	return plugin.Token{Name: "local", ValueFile: file}
}

// outOfReach refuses a token file that the commands could read.
func (o options) outOfReach(set serve.Settings) error {
	dir, err := filepath.Abs(filepath.Dir(o.tokenFile))
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return err
	}
	policy := jail.Config{Mode: set.Jail, Network: set.Network, Writable: []string{set.Workspace}}
	if granted, reached := policy.Grants(filepath.Join(dir, filepath.Base(o.tokenFile))); reached {
		return fmt.Errorf("the client token %s lies at or under %s, which commands may read: serve another "+
			"workspace, or keep the token elsewhere with -token-file", o.tokenFile, granted)
	}
	if err := config.Apart("the client token", o.tokenFile, set.Workspace); err != nil {
		return err
	}
	return nil
}

// apart refuses a workspace from which commands could change what the owner runs
// next: the Makefile and the sources of the checkout in which this was started, and what
// it keeps in .sallyport there.
func apart(workspace string) error {
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	if workspace, err = filepath.Abs(workspace); err == nil {
		workspace, err = filepath.EvalSymlinks(workspace)
	}
	if err != nil {
		return err
	}
	return config.Beside(workspace, here)
}

// warnOfHome says loudly that a whole home or a folder of the system is served.
func (o options) warnOfHome(stderr io.Writer) {
	real, err := filepath.Abs(o.workspace)
	if err == nil {
		real, err = filepath.EvalSymlinks(real)
	}
	if err != nil {
		return // the settings say it
	}
	home, _ := filepath.EvalSymlinks(os.Getenv("HOME"))
	switch {
	case real == home || real == "/root" || filepath.Dir(real) == "/home" || real == "/home":
		fmt.Fprintf(stderr, "WARNING: %s is a home directory: commands can read and change everything in it, keys "+
			"such as ~/.ssh and the shell's start files among them. "+
			"Serve a folder of it instead: make run WORKSPACE=%s/Development\n", real, real)
	case slices.Contains([]string{"/opt", "/srv", "/var"}, real) ||
		slices.Contains([]string{"bin", "boot", "etc", "lib", "sbin", "usr"}, strings.SplitN(real, "/", 3)[1]):
		fmt.Fprintf(stderr, "WARNING: %s is a folder of the system: commands can read and change everything in it. "+
			"Serve a folder of your own instead\n", real)
	}
}

// giveTo gives what root has just made to the owner of like.
func giveTo(like string, names ...string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(like)
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	for _, name := range names {
		if err := os.Lchown(name, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return nil
}
