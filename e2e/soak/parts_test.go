package soak

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// hubUser is whom the hub gives root up for: the owner of its state directory.
const hubUser = 64321

// A part is one process of the chain, or what stands for one. Who began in another
// generation than now, or while it is odd, is the victim of its end.
type part struct {
	name       string
	generation atomic.Int64
	ready      func(*rig.Process) bool

	mu      sync.Mutex
	process *rig.Process
}

func (p *part) current() *rig.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process
}

func healthy(addr string) func(*rig.Process) bool {
	return func(*rig.Process) bool { return rig.Status("http://"+addr+"/healthz") == 200 }
}

// away runs what takes a part away and brings it back. Who calls it meanwhile is excused.
func (p *part) away(run func()) {
	p.generation.Add(1)
	run()
	p.generation.Add(1)
}

// restart ends a part by a signal, which goes to the process that does its work, and
// starts it again in the same place.
func (w *world) restart(p *part, signal syscall.Signal) {
	p.away(func() {
		old := p.current()
		target := old.Cmd.Process.Pid
		if servers := old.Servers(); signal == syscall.SIGKILL {
			target = servers[len(servers)-1]
		}
		_ = syscall.Kill(target, signal)
		select {
		case <-old.Done:
		case <-time.After(rig.Deadline):
			w.t.Errorf("%s did not end after %v", p.name, signal)
		}
		if p == w.sandbox {
			rig.Until(w.t, "nothing of its commands outlives a kill -9 of sandboxd", func() bool { return len(w.survivors()) == 0 })
		}
		cmd := exec.Command(old.Cmd.Path, old.Cmd.Args[1:]...)
		cmd.Env, cmd.Dir, cmd.SysProcAttr = old.Cmd.Env, old.Cmd.Dir, old.Cmd.SysProcAttr
		next := rig.Start(w.t, cmd)
		rig.Until(w.t, p.name+" after "+signal.String(), func() bool { return p.ready(next) }, next)
		p.mu.Lock()
		p.process = next
		p.mu.Unlock()
		if p == w.traefik {
			w.chain.Traefik.Process = next
		}
	})
	if signal == syscall.SIGKILL {
		w.count("kill -9 of " + p.name)
	} else {
		w.count("restarts of " + p.name)
	}
}

func (w *world) startEgress() *part {
	cmd := exec.Command(rig.Binary(w.t, "sallyport-egress"))
	cmd.Env = []string{"EGRESS_SOCKET=" + w.egressSocket(), "EGRESS_KEY_FILE=" + w.egressKey(), "EGRESS_ALLOW=x.example",
		"EGRESS_AUDIT_FILE=" + filepath.Join(w.dir, "egressaudit", "audit.jsonl")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	return w.begin("egress", cmd, func(p *rig.Process) bool { return strings.Contains(p.Log.String(), `"listening"`) })
}

// begin starts a part.
func (w *world) begin(name string, cmd *exec.Cmd, ready func(*rig.Process) bool) *part {
	w.t.Helper()
	p := &part{name: name, process: rig.Start(w.t, cmd), ready: ready}
	rig.Until(w.t, name, func() bool { return ready(p.process) }, p.process)
	return p
}

// startHub starts a hub with a stdio server, box, and one that is reached over http, far.
func (w *world) startHub() (p *part, addr, tokenFile string) {
	t := w.t
	t.Helper()
	w.far = newFar(t)
	w.upstream = &part{name: "an upstream of the hub"}
	addr = rig.FreeAddr(t)
	_, tokenFile = rig.NewToken(t)
	dir := filepath.Join(w.dir, "hub")
	box := filepath.Join(dir, "state", "stdio", "box")
	audit := filepath.Join(dir, "audit")
	for _, d := range []string{box, audit} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-o", box+"/box", "../hub/box")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	servers, err := json.Marshal(map[string]any{"mcpServers": map[string]any{
		"box": map[string]any{"command": box + "/box"}, "far": map[string]any{"type": "http", "url": w.far.url}}})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "mcp.json"), servers, 0o644)
	}
	if err == nil {
		err = os.Chmod(audit, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"state", "audit"} {
		if out, err := exec.Command("chown", "-R", fmt.Sprint(hubUser), filepath.Join(dir, d)).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	cmd := exec.Command(rig.Binary(t, "sallyport-hub"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MCP_ADDR=" + addr, "MCP_AUTH_TOKEN_FILE=" + tokenFile, "MCP_REQUIRE_EDGE=true",
		"MCP_SERVERS_FILE=" + filepath.Join(dir, "mcp.json"), "MCP_STATE_DIR=" + filepath.Join(dir, "state"), "MCP_AUDIT_FILE=" + w.hubAudit()}
	return w.begin("the hub", cmd, healthy(addr)), addr, tokenFile
}

func (w *world) hubAudit() string { return filepath.Join(w.dir, "hub", "audit", "audit.jsonl") }

// startLogin starts login for the sandbox's URL.
func (w *world) startLogin() (p *part, addr string) {
	t := w.t
	t.Helper()
	addr = rig.FreeAddr(t)
	raw, err := os.ReadFile(filepath.Join(rig.Root(t), "deploy", "login.json"))
	var config map[string]any
	if err == nil {
		err = json.Unmarshal([]byte(strings.ReplaceAll(string(raw), "@LOGIN@", w.origin)), &config)
	}
	if err == nil {
		config["ownHost"] = true
		raw, err = json.Marshal(config)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(w.dir, "login.json"), raw, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(rig.Binary(t, "sallyport-login"))
	cmd.Env = append(os.Environ(), "LOGIN_ADDR="+addr, "LOGIN_STATE_DIR="+filepath.Join(w.dir, "login"), "LOGIN_CONFIG="+filepath.Join(w.dir, "login.json"),
		"LOGIN_REVOKED_FILE="+filepath.Join(w.dir, "revoked", "revoked"), "LOGIN_AUDIT_FILE="+filepath.Join(w.dir, "loginaudit", "audit.jsonl"))
	p = w.begin("login", cmd, healthy(addr))
	if out, err := w.verb(p, password+"\n", "password"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p, addr
}

// verb runs one of login's verbs for the owner.
func (w *world) verb(login *part, in string, args ...string) (string, error) {
	cmd := exec.Command(rig.Binary(w.t, "sallyport-login"), args...)
	cmd.Env, cmd.Stdin = login.current().Cmd.Env, strings.NewReader(in)
	out, err := cmd.CombinedOutput()
	return string(out), err
}
