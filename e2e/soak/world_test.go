// Package soak mixes everything for as long as asked (make soak FOR=10m): clients of
// both transports through Traefik and the plugin, of the sandbox and of the hub's
// servers, logins, egress, hostile commands, reloads, token rotation, approvals, slow
// and broken connections, and the end of each process by kill -9. In every other run it
// takes seconds.
package soak

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// owner is the uid of the workspace, and of egress.
const owner = 54321

// world is the whole chain, with audits, an owner's socket and three tokens.
type world struct {
	t       *testing.T
	chain   *rig.Chain
	yaml    string
	dir     string // audit/ (on a small disk of its own), owner/, egress/, login/, hub/, workspace/
	mark    string // in the command line of what hostile commands leave
	asker   string // the token whose run_command asks
	rotates string // file of the token that is rotated
	first   string // its first value

	traefik, sandbox, hub, egress, login, upstream *part
	far                                            *far // the upstream's server
	origin                                         string

	mu     sync.Mutex
	counts map[string]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: rig.PublicDir(t), mark: "soak-" + rand.Text(), counts: map[string]int{}}
	w.folders()
	asker, askerFile := rig.NewToken(t)
	w.asker = asker
	w.first, w.rotates = rig.NewToken(t)
	secure := rig.FreeAddr(t)
	w.origin = "https://localhost:" + secure[strings.LastIndex(secure, ":")+1:]
	w.egress = w.startEgress()
	var files rig.Files
	w.hub, files.HubAddr, files.HubToken = w.startHub()
	w.login, files.LoginAddr = w.startLogin()
	files.RevokedDir = filepath.Join(w.dir, "revoked")
	const limits = "requestsPerMinute: 1000000, maxConcurrent: 1000, maxStreams: 1000"
	last, hubs := "              egress: [\"*\"]\n", "              tools: [\"*\"]\n"
	lines := "              " + strings.ReplaceAll(limits, ", ", "\n              ") + "\n"
	more := last + lines + `            - {name: asker, valueFile: ` + askerFile + `, tools: ["ask:run_command"], ` + limits + `}
            - {name: rotating, valueFile: ` + w.rotates + `, tools: ["read_file"], ` + limits + `}
          failuresPerMinute: 1000000
`
	w.chain = rig.StartChain(t, rig.ChainOptions{
		Sandboxd: rig.SandboxdOptions{Workspace: filepath.Join(w.dir, "workspace"), Env: []string{
			"MCP_AUDIT_FILE=" + w.audit(), "MCP_OWNER_SOCKET=" + w.socket(), "MCP_OWNER_KEY_FILE=" + w.key(),
			"MCP_COMMAND_NETWORK=allowlist", "MCP_EGRESS_SOCKET=" + w.egressSocket(), "MCP_EGRESS_KEY_FILE=" + w.egressKey()}},
		Args:  []string{"--providers.providersthrottleduration=100ms"},
		Files: files, Secure: secure, Env: []string{"SALLYPORT_LOGIN=" + w.origin},
		Edit: func(yaml string) string {
			if strings.Count(yaml, last) != 1 || strings.Count(yaml, hubs) != 1 {
				t.Fatal("traefik-dynamic.yml has not the lines that this test looks for")
			}
			w.yaml = strings.Replace(strings.Replace(yaml, last, more, 1), hubs, hubs+lines, 1)
			return w.yaml
		},
	})
	w.sandbox = &part{name: "sandboxd", process: w.chain.Sandbox.Process, ready: healthy(w.chain.Sandbox.Addr)}
	w.traefik = &part{name: "Traefik", process: w.chain.Process, ready: func(*rig.Process) bool {
		return rig.Status(w.chain.WebSecure+"/mcp-sandbox/mcp") == 401
	}}
	return w
}

// folders makes what the processes keep: the audit of sandboxd lies on a disk of its
// own, so that it can be full.
func (w *world) folders() {
	w.t.Helper()
	for _, sub := range []string{"audit", "owner", "workspace", "egress", "egressaudit", "loginaudit", "revoked"} {
		if err := os.Mkdir(filepath.Join(w.dir, sub), 0o700); err != nil {
			w.t.Fatal(err)
		}
	}
	disk := filepath.Join(w.dir, "audit")
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_NOSUID|syscall.MS_NODEV, "size=1g,mode=0700"); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	for path, text := range map[string]string{w.key(): strings.Repeat("0a", 32), w.egressKey(): strings.Repeat("0b", 32)} {
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := ca.WritePEM(filepath.Join(w.dir, "workspace", "ca.pem")); err != nil {
		w.t.Fatal(err)
	}
	for _, path := range []string{"workspace", "workspace/ca.pem", "egress", "egress/key", "egressaudit"} {
		if err := os.Chown(filepath.Join(w.dir, path), owner, owner); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) audit() string        { return filepath.Join(w.dir, "audit", "audit.jsonl") }
func (w *world) socket() string       { return filepath.Join(w.dir, "owner", "owner.sock") }
func (w *world) key() string          { return filepath.Join(w.dir, "owner", "key") }
func (w *world) egressKey() string    { return filepath.Join(w.dir, "egress", "key") }
func (w *world) egressSocket() string { return filepath.Join(w.dir, "egress", "egress.sock") }

// count adds to one line of the summary.
func (w *world) count(what string) { w.countMany(what, 1) }

func (w *world) countMany(what string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what] += n
}

func (w *world) counted(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what]
}

// survivors lists what hostile commands started and still runs.
func (w *world) survivors() (pids []int) { return withLine(w.mark) }

// withLine lists the processes whose command line has this in it.
func withLine(what string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), what) {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// size is what a process holds.
type size struct{ mib, descriptors int }

func (s size) String() string { return fmt.Sprintf("%d MiB, %d descriptors", s.mib, s.descriptors) }

func (w *world) measure(p *part) size {
	process := p.current()
	return size{process.Resident(w.t) >> 20, process.Descriptors()}
}
