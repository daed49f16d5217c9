package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// patience for events that come soon unless something is broken.
const patience = 30 * time.Second

// bench is a running proxy in front of a fake daemon.
type bench struct {
	t *testing.T
	*fake
	s    settings
	log  *buffer
	stop func() // and wait
}

type buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

const goodConfig = `{"mcpServers": {
	"s": {"type": "docker", "image": "img", "env": {"KEY": "${KEY}"}, "secretsFrom": "set"},
	"plain": {"type": "docker", "image": "img"},
	"local": {"command": "x"},
	"bad": {"type": "docker", "image": "img", "privileged": true}}}`

// prepare makes the files and the daemon; start serves.
func prepare(t *testing.T, config string) *bench {
	t.Helper()
	dir := t.TempDir()
	b := &bench{t: t, fake: newFake(t), log: &buffer{}}
	getenv := map[string]string{"CONFIG_PATH": dir + "/mcp.json", "LISTEN_SOCKET": dir + "/p.sock",
		"DOCKER_SOCKET": b.socket, "SANDBOX_SECRETS_DIR": dir, "FORBIDDEN_SOURCES": "none"}
	var err error
	if b.s, err = readSettings(func(name string) string { return getenv[name] }); err != nil {
		t.Fatal(err)
	}
	b.s.poll, b.s.reapEvery = 5*time.Millisecond, time.Hour // who counts requests to the daemon counts no look for leftovers
	b.write("mcp.json", config)
	b.write("set.env", "SECRET=s3cret-value\n")
	return b
}

func start(t *testing.T, config string) *bench {
	t.Helper()
	b := prepare(t, config)
	b.start()
	return b
}

func (b *bench) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, b.s, nil, slog.New(slog.NewJSONHandler(b.log, nil))) }()
	var once sync.Once
	b.stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				b.t.Errorf("serve: %v", err)
			}
		})
	}
	b.t.Cleanup(b.stop)
	b.until("listening", func() bool {
		select {
		case err := <-done:
			b.t.Fatalf("serve: %v", err)
		default:
		}
		return strings.Contains(b.log.String(), `"listening"`)
	})
}

func (b *bench) until(what string, done func() bool) {
	b.t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			b.t.Fatalf("never: %s\nlog: %s\ndaemon: %s", what, b.log, strings.Join(b.requests(), "\n"))
		}
	}
}

// write a file beside the configuration, as a rename.
func (b *bench) write(name, text string) {
	b.t.Helper()
	path := filepath.Join(filepath.Dir(b.s.configPath), name)
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		b.t.Fatal(err)
	}
}

// hub is a connection of the hub.
type hub struct {
	*bench
	conn *net.UnixConn
	in   *bufio.Reader
}

func (b *bench) dial() *hub {
	b.t.Helper()
	c, err := net.Dial("unix", b.s.listenSocket)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	c.SetReadDeadline(time.Now().Add(patience))
	return &hub{b, c.(*net.UnixConn), bufio.NewReader(c)}
}

// greet is dial with the handshake done.
func (b *bench) greet() *hub {
	b.t.Helper()
	h := b.dial()
	h.must(`{"verb":"policy","version":1}`)
	return h
}

// ask sends a line and returns the reply; zero when the proxy hung up.
func (h *hub) ask(line string) wire.Reply {
	h.t.Helper()
	h.conn.SetReadDeadline(time.Now().Add(patience)) // anew: it may have been held for long
	fmt.Fprintf(h.conn, "%s\n", line)
	answer, err := h.in.ReadBytes('\n')
	var reply wire.Reply
	if err == nil {
		err = json.Unmarshal(answer, &reply)
	}
	if err != nil && err != io.EOF {
		h.t.Errorf("%.200s: %q, %v", line, answer, err)
	}
	return reply
}

func (h *hub) must(line string) wire.Reply {
	h.t.Helper()
	reply := h.ask(line)
	if !reply.OK {
		h.t.Fatalf("%s: %+v\nlog: %s\ndaemon: %s", line, reply, h.log, strings.Join(h.requests(), "\n"))
	}
	return reply
}

// ensureLine is a request that must be granted.
func (b *bench) ensureLine(server string, env map[string]string) string {
	raw, err := os.ReadFile(b.s.configPath)
	if err != nil {
		b.t.Fatal(err)
	}
	c, err := mcpjson.Parse(raw)
	if err != nil {
		b.t.Fatal(err)
	}
	line, _ := json.Marshal(wire.Request{Verb: wire.VerbEnsure, Server: server, Hash: c.Servers[server].Hash, Env: env})
	return string(line)
}

// run ensures and attaches.
func (b *bench) run(server string, env map[string]string) *hub {
	b.t.Helper()
	h := b.greet()
	h.must(b.ensureLine(server, env))
	h.must(`{"verb":"attach","server":"` + server + `"}`)
	return h
}

// frames reads to the end: stdout, stderr and why.
func (h *hub) frames() (stdout, stderr string, end wire.End) {
	h.t.Helper()
	h.conn.SetReadDeadline(time.Now().Add(patience))
	buffer := make([]byte, wire.MaxFrame)
	for {
		kind, payload, err := wire.ReadFrame(h.in, buffer)
		if err != nil {
			h.t.Fatalf("no end frame: %v\nlog: %s", err, h.log)
		}
		switch kind {
		case wire.FrameStdout:
			stdout += string(payload)
		case wire.FrameStderr:
			stderr += string(payload)
		case wire.FrameEnd:
			if err := json.Unmarshal(payload, &end); err != nil {
				h.t.Fatal(err)
			}
			return stdout, stderr, end
		}
	}
}
