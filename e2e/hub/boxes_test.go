package hub

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// boxes are small servers in containers, behind a hub and a proxy of the
// test's own instance.
type boxes struct {
	*stand
	host     string // of the engine; "" is this machine's
	instance string
	socket   string // of the proxy
	proxy    *rig.Process
}

// startBoxes starts the docker servers "one" and "two", each with secrets of
// its name, on an engine.
func startBoxes(t *testing.T, host string) *boxes {
	t.Helper()
	rig.NeedDocker(t)
	b := &boxes{stand: prepare(t), host: host, instance: strings.ToLower(rand.Text()[:12])}
	b.socket = filepath.Join(b.own(filepath.Join(b.dir, "proxy")), "proxy.sock")
	b.env = append(b.env, "MCP_PROXY_SOCKET="+b.socket)
	b.own(filepath.Join(b.dir, "secrets"))
	image := "sallyport-e2e-" + b.instance
	load := b.engine("import", "-c", `ENTRYPOINT ["/box"]`, "-", image)
	load.Stdin = box(t)
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		for _, id := range b.containers("") {
			b.engine("rm", "-f", "-v", id).Run()
		}
		b.engine("rmi", "-f", image).Run()
	})
	for _, name := range []string{"one", "two"} {
		b.secret(name, "KEY="+name)
		b.configure(map[string]any{name: entry{"type": "docker", "image": image, "secretsFrom": name}})
	}
	b.startProxy()
	b.start()
	return b
}

var builtBox = sync.OnceValues(func() ([]byte, error) {
	file := filepath.Join(os.TempDir(), "sallyport-box-"+rand.Text())
	defer os.Remove(file)
	build := exec.Command("go", "build", "-o", file, "./box")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(file)
})

// box is a filesystem with nothing but the server.
func box(t *testing.T) *bytes.Buffer {
	t.Helper()
	program, err := builtBox()
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	if err == nil {
		err = w.WriteHeader(&tar.Header{Name: "box", Mode: 0o755, Size: int64(len(program))})
	}
	if err == nil {
		_, err = w.Write(program)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	return &image
}

func (b *boxes) engine(args ...string) *exec.Cmd {
	cmd := exec.Command("docker", args...)
	if cmd.Env = os.Environ(); b.host != "" {
		cmd.Env = append(cmd.Env, "DOCKER_HOST=unix://"+b.host)
	}
	return cmd
}

// startProxy starts the proxy, also once more after its end.
func (b *boxes) startProxy() {
	b.t.Helper()
	cmd := as(exec.Command(rig.Binary(b.t, "sallyport-dockerproxy")))
	cmd.Env = []string{"CONFIG_PATH=" + filepath.Join(b.dir, "mcp.json"), "LISTEN_SOCKET=" + b.socket, "INSTANCE=" + b.instance, "FORBIDDEN_SOURCES=none",
		"SANDBOX_SECRETS_DIR=" + filepath.Join(b.dir, "secrets")}
	if b.host != "" {
		// Who may use the test's own engine is nothing that is tested here.
		cmd.Env = append(cmd.Env, "DOCKER_SOCKET="+b.host)
		if err := os.Chmod(b.host, 0o666); err != nil {
			b.t.Fatal(err)
		}
	}
	b.proxy = rig.Start(b.t, cmd)
	rig.Until(b.t, "the proxy listens", func() bool { return strings.Contains(b.proxy.Log.String(), `"listening"`) }, b.proxy)
}

// secret writes a set as an editor does: a new file, renamed.
func (b *boxes) secret(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, "secrets", name+".env")
	err := os.WriteFile(path+".new", []byte(text+"\n"), 0o640)
	if err == nil {
		err = os.Chown(path+".new", uid, uid)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// containers of a server by id; of all servers for "".
func (b *boxes) containers(server string) []string {
	args := []string{"ps", "-aq", "--no-trunc", "--filter", "label=" + container.LabelOwner + "=" + b.instance}
	if server != "" {
		args = append(args, "--filter", "label="+container.LabelServer+"="+server)
	}
	out, _ := b.engine(args...).Output()
	return strings.Fields(string(out))
}

// only is the id of the server's one container.
func (b *boxes) only(server string) string {
	b.t.Helper()
	ids := b.containers(server)
	if len(ids) != 1 {
		b.t.Fatalf("%s has the containers %q", server, ids)
	}
	return ids[0]
}

// dial opens a client's session.
func (b *boxes) dial(server string, how rig.Transport) *mcp.ClientSession {
	b.t.Helper()
	return rig.Connect(b.t, b.url+"/servers/"+server, b.token, how)
}

// key asks a server for its secret. Whatever happens, an answer or an error
// comes in time: anything else fails the test.
func (b *boxes) key(session *mcp.ClientSession) (string, error) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), rig.Deadline)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "env", Arguments: rig.Args{"name": "KEY"}})
	switch {
	case ctx.Err() != nil:
		b.t.Errorf("a call hung: %v", err)
		return "", err
	case err != nil:
		return "", err
	}
	return rig.Text(result), nil
}

// says waits until the server has a secret, for a client that comes anew as
// well as it may.
func (b *boxes) says(server, want string) {
	b.t.Helper()
	var last string
	rig.Until(b.t, "the secret of "+server, func() bool {
		session, err := rig.TryConnect(b.t.Context(), b.url+"/servers/"+server, b.token, rig.Streamable)
		if err == nil {
			defer session.Close()
			last, err = b.key(session)
		}
		return err == nil && last == want
	}, b.Process, b.proxy)
}

// descriptors of a process, without the connections of its HTTP clients, which
// stay open for a while.
func descriptors(p *rig.Process) (n int) {
	tcp, _ := os.ReadFile("/proc/net/tcp")
	var all []string
	for _, pid := range p.Servers() {
		list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		all = append(all, list...)
	}
	for _, fd := range all {
		to, err := os.Readlink(fd)
		inode := strings.TrimSuffix(strings.TrimPrefix(to, "socket:["), "]")
		if err == nil && !(inode != to && strings.Contains(string(tcp), " "+inode+" ")) {
			n++
		}
	}
	return n
}

// goroutines of a Go program without those of its HTTP connections. The program
// ends, with their stacks in its log.
func goroutines(t *testing.T, p *rig.Process) (n int) {
	t.Helper()
	p.Cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.Done:
	case <-time.After(rig.Deadline):
		t.Fatal("SIGQUIT does not end it")
	}
	_, stacks, _ := strings.Cut(p.Log.String(), "SIGQUIT: quit")
	for stack := range strings.SplitSeq(stacks, "\ngoroutine ") {
		if !strings.Contains(stack, "net/http.(*conn") {
			n++
		}
	}
	return n
}
