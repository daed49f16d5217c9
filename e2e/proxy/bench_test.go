// Package proxy tests the policy proxy against a real Docker engine.
package proxy

import (
	"archive/tar"
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// bench is a dockerproxy of the test's own instance on the shared engine.
type bench struct {
	t        *testing.T
	docker   *rig.Docker
	dir      string // mcp.json, secrets, socket
	socket   string
	instance string
	image    string
	process  *rig.Process
}

// script is the server in the test's image: a line "do …" is run by the shell,
// any other comes back.
const script = `while read -r line; do
	case "$line" in
	"do "*) eval "${line#do }" ;;
	*) echo "got $line" ;;
	esac
done
`

// prepare makes the image, whose every setting is hostile, and the folder.
func prepare(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, docker: rig.NeedDocker(t), dir: rig.PublicDir(t), instance: strings.ToLower(rand.Text()[:12])}
	b.socket = filepath.Join(b.dir, "proxy.sock")
	b.image = b.docker.Name
	cmd := exec.Command("docker", "import", "-c", `ENTRYPOINT ["/bin/sh", "/server.sh"]`, "-c", "ENV LD_PRELOAD=/evil.so",
		"-c", "ENV KEEP=kept", "-c", "VOLUME /cache", "-c", "LABEL traefik.enable=true com.docker.compose.project=x",
		"-c", `HEALTHCHECK CMD ["/bin/touch", "/tmp/healthcheck-ran"]`, "-", b.image)
	cmd.Stdin = filesystem(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		for _, id := range b.containers() {
			b.docker.Try("rm", "-f", "-v", id)
		}
		b.docker.Try("rmi", "-f", b.image)
	})
	return b
}

func filesystem(t *testing.T) *bytes.Buffer {
	t.Helper()
	busybox, err := os.ReadFile(rig.NeedCommand(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	add := func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		w.Write(data)
	}
	for _, dir := range []string{"bin", "cache", "etc", "proc", "sys", "dev", "data"} {
		add(tar.Header{Name: dir + "/", Typeflag: tar.TypeDir, Mode: 0o755}, nil)
	}
	add(tar.Header{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}, nil)
	add(tar.Header{Name: "bin/busybox", Typeflag: tar.TypeReg, Mode: 0o755}, busybox)
	for _, name := range []string{"sh", "cat", "id", "ls", "touch", "env", "sleep", "grep", "echo", "mount", "head", "wc", "ulimit"} {
		add(tar.Header{Name: "bin/" + name, Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil)
	}
	add(tar.Header{Name: "etc/passwd", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("app:x:1234:1235::/:\ntoor:x:0:0::/:\nloose:x:1236:0::/:\n"))
	add(tar.Header{Name: "etc/group", Typeflag: tar.TypeReg, Mode: 0o644}, []byte("root:x:0:app\ncrew:x:77:\n"))
	add(tar.Header{Name: "server.sh", Typeflag: tar.TypeReg, Mode: 0o755}, []byte(script))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &image
}

func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		b.t.Fatal(err)
	}
}

// config writes mcp.json; IMAGE stands for the test's image.
func (b *bench) config(servers string) {
	b.write("mcp.json", `{"mcpServers": {`+strings.ReplaceAll(servers, "IMAGE", b.image)+`}}`)
}

func (b *bench) start(more ...string) {
	b.t.Helper()
	cmd := exec.Command(rig.Binary(b.t, "sallyport-dockerproxy"))
	cmd.Env = []string{"CONFIG_PATH=" + b.dir + "/mcp.json", "SANDBOX_SECRETS_DIR=" + b.dir, "LISTEN_SOCKET=" + b.socket, "INSTANCE=" + b.instance, "FORBIDDEN_SOURCES=none"}
	cmd.Env = append(cmd.Env, more...)
	b.process = rig.Start(b.t, cmd)
	rig.Until(b.t, "the proxy listens", func() bool {
		c, err := net.Dial("unix", b.socket)
		if err == nil {
			c.Close()
		}
		return err == nil && strings.Contains(b.process.Log.String(), `"listening"`)
	}, b.process)
}

// containers of this instance, by id.
func (b *bench) containers() []string {
	out, _ := b.docker.Try("ps", "-aq", "--no-trunc", "--filter", "label="+container.LabelOwner+"="+b.instance)
	return strings.Fields(out)
}

func (b *bench) none() {
	b.t.Helper()
	rig.Until(b.t, "no container is left", func() bool { return len(b.containers()) == 0 })
}

// link is a connection to the proxy, as the hub makes it.
type link struct {
	b    *bench
	conn *net.UnixConn
	in   *bufio.Reader
}

func (b *bench) dial() *link {
	b.t.Helper()
	l, reply := b.greet()
	if !reply.OK {
		b.t.Fatalf("handshake: %+v", reply)
	}
	return l
}

// greet connects and says hello.
func (b *bench) greet() (*link, wire.Reply) {
	b.t.Helper()
	c, err := net.Dial("unix", b.socket)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(2 * rig.Deadline))
	l := &link{b, c.(*net.UnixConn), bufio.NewReader(c)}
	return l, l.ask(wire.Request{Verb: wire.VerbPolicy, Version: wire.Version})
}

func (l *link) ask(q wire.Request) (reply wire.Reply) {
	l.b.t.Helper()
	line, err := json.Marshal(q)
	if err != nil {
		l.b.t.Fatal(err)
	}
	fmt.Fprintf(l.conn, "%s\n", line)
	answer, err := l.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(answer, &reply)
	}
	if err != nil {
		l.b.t.Fatalf("%s: %v", line, err)
	}
	return reply
}

// ensure asks for the server with values for its variables.
func (l *link) ensure(server string, env map[string]string) wire.Reply {
	l.b.t.Helper()
	data, err := os.ReadFile(filepath.Join(l.b.dir, "mcp.json"))
	if err != nil {
		l.b.t.Fatal(err)
	}
	c, err := mcpjson.Parse(data)
	if err != nil || c.Servers[server] == nil {
		l.b.t.Fatalf("%s: %v %v", server, err, c.Broken)
	}
	return l.ask(wire.Request{Verb: wire.VerbEnsure, Server: server, Hash: c.Servers[server].Hash, Env: env})
}

// run ensures and attaches.
func (b *bench) run(server string, env map[string]string) *link {
	b.t.Helper()
	l := b.dial()
	if reply := l.ensure(server, env); !reply.OK {
		b.t.Fatalf("ensure: %+v", reply)
	}
	if reply := l.ask(wire.Request{Verb: wire.VerbAttach, Server: server}); !reply.OK {
		b.t.Fatalf("attach: %+v", reply)
	}
	return l
}

// sh runs a line in the sandbox and returns what it prints, both streams.
func (l *link) sh(line string) string {
	l.b.t.Helper()
	fmt.Fprintf(l.conn, "do { %s; } 2>&1; echo; echo END\n", line)
	buffer, out := make([]byte, wire.MaxFrame), ""
	for !strings.HasSuffix(out, "\nEND\n") {
		kind, payload, err := wire.ReadFrame(l.in, buffer)
		if err != nil || kind == wire.FrameEnd {
			l.b.t.Fatalf("%s: %v %s after %q", line, err, payload, out)
		}
		out += string(payload)
	}
	return strings.TrimSpace(strings.TrimSuffix(out, "END\n"))
}

// end reads to the last frame.
func (l *link) end() (end wire.End) {
	l.b.t.Helper()
	for buffer := make([]byte, wire.MaxFrame); ; {
		kind, payload, err := wire.ReadFrame(l.in, buffer)
		if err != nil {
			l.b.t.Fatalf("no end frame: %v", err)
		}
		if kind == wire.FrameEnd {
			if err := json.Unmarshal(payload, &end); err != nil {
				l.b.t.Fatal(err)
			}
			return end
		}
	}
}
