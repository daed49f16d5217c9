// Package soak mixes everything for as long as asked (make soak FOR=10m): clients of
// both transports through Traefik and the plugin, hostile commands, reloads, token
// rotation, approvals, slow readers, kill -9 of sandboxd. In every other run it takes
// seconds.
package soak

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// world is the chain with an audit, an owner's socket and three tokens.
type world struct {
	t       *testing.T
	chain   *rig.Chain
	yaml    string
	dir     string // audit/, owner/
	mark    string // in the command line of what hostile commands leave
	asker   string // the token whose run_command asks
	rotates string // file of the token that is rotated
	first   string // its first value

	// generation counts: odd while sandboxd is down. Who began in another one than
	// now is the victim of a kill -9.
	generation atomic.Int64
	mu         sync.Mutex
	sandbox    *rig.Process
	counts     map[string]int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: rig.PublicDir(t), mark: "soak-" + rand.Text(), counts: map[string]int{}}
	for _, sub := range []string{"audit", "owner"} {
		if err := os.Mkdir(filepath.Join(w.dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(w.key(), []byte(strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	asker, askerFile := rig.NewToken(t)
	w.asker = asker
	w.first, w.rotates = rig.NewToken(t)
	const limits = "requestsPerMinute: 1000000, maxConcurrent: 1000, maxStreams: 1000"
	last := "              egress: [\"*\"]\n"
	more := last + "              " + strings.ReplaceAll(limits, ", ", "\n              ") + `
            - {name: asker, valueFile: ` + askerFile + `, tools: ["ask:run_command"], ` + limits + `}
            - {name: rotating, valueFile: ` + w.rotates + `, tools: ["read_file"], ` + limits + `}
          failuresPerMinute: 1000000
`
	w.chain = rig.StartChain(t, rig.ChainOptions{
		Sandboxd: rig.SandboxdOptions{Env: []string{"MCP_AUDIT_FILE=" + w.audit(), "MCP_OWNER_SOCKET=" + w.socket(), "MCP_OWNER_KEY_FILE=" + w.key()}},
		Args:     []string{"--providers.providersthrottleduration=100ms"},
		Edit: func(yaml string) string {
			w.yaml = strings.Replace(yaml, last, more, 1)
			return w.yaml
		},
	})
	w.sandbox = w.chain.Sandbox.Process
	return w
}

func (w *world) audit() string  { return filepath.Join(w.dir, "audit", "audit.jsonl") }
func (w *world) socket() string { return filepath.Join(w.dir, "owner", "owner.sock") }
func (w *world) key() string    { return filepath.Join(w.dir, "owner", "key") }

// count adds to one line of the summary.
func (w *world) count(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts[what]++
}

func (w *world) counted(what string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.counts[what]
}

// excused reports whether sandboxd was killed since then, or is down.
func (w *world) excused(since int64) bool {
	now := w.generation.Load()
	return now != since || now%2 == 1
}

// kill ends sandboxd's server without a warning, and starts it again on its address.
func (w *world) kill() {
	old := w.current()
	w.generation.Add(1)
	servers := old.Servers()
	_ = syscall.Kill(servers[len(servers)-1], syscall.SIGKILL)
	select {
	case <-old.Done:
	case <-time.After(rig.Deadline):
		w.t.Error("sandboxd did not end after kill -9")
	}
	rig.Until(w.t, "nothing of its commands outlives a kill -9 of sandboxd", func() bool { return len(w.survivors()) == 0 })
	cmd := exec.Command(old.Cmd.Path)
	cmd.Env = old.Cmd.Env
	next := rig.Start(w.t, cmd)
	rig.Until(w.t, "sandboxd's health after kill -9", func() bool { return rig.Status(w.chain.Sandbox.URL+"/healthz") == 200 }, next)
	w.mu.Lock()
	w.sandbox = next
	w.mu.Unlock()
	w.generation.Add(1)
	w.count("kill -9 of sandboxd")
}

func (w *world) current() *rig.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sandbox
}

// survivors lists what hostile commands started and still runs.
func (w *world) survivors() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline") // the pattern is well formed
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && strings.Contains(string(line), w.mark) {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// size is what a process holds.
type size struct{ mib, descriptors int }

func (s size) String() string { return fmt.Sprintf("%d MiB, %d descriptors", s.mib, s.descriptors) }

func (w *world) measure(p *rig.Process) size {
	return size{p.Resident(w.t) >> 20, p.Descriptors()}
}
