package main

import (
	"bytes"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
)

func TestSettings(t *testing.T) {
	read := func(env map[string]string) (settings, error) {
		return readSettings(func(name string) string {
			if v, set := env[name]; set || name != "FORBIDDEN_SOURCES" {
				return v
			}
			return "none"
		})
	}
	s, err := read(nil)
	if err != nil || s.configPath != "/config/mcp.json" || s.listenSocket != "/run/proxy/docker.sock" || s.dockerSocket != "/var/run/docker.sock" ||
		s.secretsDir != "/run/secrets" || !s.secretsWatch || s.socketMode != 0o660 || s.hubUID != uint32(os.Getuid()) || s.instance != "sallyport" {
		t.Errorf("defaults: %+v, %v", s, err)
	}
	s, err = read(map[string]string{"SOCKET_MODE": "600", "HUB_UID": "1234", "INSTANCE": "test1", "SANDBOX_SECRETS_WATCH": "false"})
	if err != nil || s.socketMode != 0o600 || s.hubUID != 1234 || s.instance != "test1" || s.secretsWatch {
		t.Errorf("set: %+v, %v", s, err)
	}
	_, err = read(map[string]string{"SOCKET_MODE": "0666", "HUB_UID": "hub", "INSTANCE": "A", "CONFIG_PATH": "mcp.json",
		"SANDBOX_SECRETS_WATCH": "yes", "LISTEN_SOCKET": "/x", "DOCKER_SOCKET": "/x"})
	for _, name := range []string{"SOCKET_MODE", "HUB_UID", "INSTANCE", "CONFIG_PATH", "SANDBOX_SECRETS_WATCH", "LISTEN_SOCKET"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named: %v", name, err)
		}
	}
	for _, mode := range []string{"0661", "0664", "0666", "0777", "0670", "0060", "4660", "x", "-1"} {
		if _, err := read(map[string]string{"SOCKET_MODE": mode}); err == nil {
			t.Errorf("mode %s is accepted", mode)
		}
	}
	for _, instance := range []string{"", "a b", "a.b", "a-b", strings.Repeat("a", 17), "ä"} {
		if _, err := read(map[string]string{"INSTANCE": instance}); (err == nil) != (instance == "") {
			t.Errorf("instance %q: %v", instance, err)
		}
	}
}

func TestUsage(t *testing.T) {
	var out, errs bytes.Buffer
	none := func(string) string { return "" }
	if code := run([]string{"--help"}, none, &out, &errs); code != 0 || !strings.Contains(out.String(), "HUB_UID") {
		t.Errorf("help: %d %s", code, out.String())
	}
	if code := run([]string{"serve"}, none, &out, &errs); code != 2 {
		t.Errorf("unknown word: %d", code)
	}
	if code := run(nil, func(string) string { return "relative" }, &out, &errs); code != 2 {
		t.Errorf("bad settings: %d", code)
	}
	only := func(name string) string { return map[string]string{"FORBIDDEN_SOURCES": "none"}[name] }
	if code := run(nil, only, &out, &errs); code != 1 || !strings.Contains(errs.String(), "/config/mcp.json") {
		t.Errorf("no configuration: %d %s", code, errs.String())
	}
}

func TestSocketModeAndHealth(t *testing.T) {
	b := start(t, goodConfig)
	info, err := os.Stat(b.s.listenSocket)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := healthcheck(b.s); err != nil {
		t.Errorf("healthy, but: %v", err)
	}
	b.mu.Lock()
	b.version = `{}`
	b.mu.Unlock()
	if err := healthcheck(b.s); err == nil {
		t.Error("healthy without a daemon")
	}
	b.stop()
	if err := healthcheck(b.s); err == nil {
		t.Error("healthy after its end")
	}
}

// TestOtherUser: the kernel's answer about the peer counts. Every other test
// is the twin.
func TestOtherUser(t *testing.T) {
	b := prepare(t, goodConfig)
	b.s.hubUID++
	b.start()
	before := len(b.requests())
	if reply := b.dial().ask(`{"verb":"policy","version":1}`); reply.Code != wire.CodeDenied || !strings.Contains(reply.Error, "HUB_UID") {
		t.Errorf("%+v", reply)
	}
	if len(b.requests()) != before || !strings.Contains(b.log.String(), "DENY") {
		t.Errorf("daemon %s, log %s", b.requests(), b.log)
	}
	if err := healthcheck(b.s); err != nil {
		t.Errorf("refusing our uid is a sign of life: %v", err)
	}
}

func TestStaleSocket(t *testing.T) {
	b := prepare(t, goodConfig)
	old, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.s.listenSocket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listen(b.s); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a live one: %v", err)
	}
	old.SetUnlinkOnClose(false) // as a crash leaves it
	old.Close()
	b.start()
	b.greet()
	b.stop()
	os.WriteFile(b.s.listenSocket, []byte("precious"), 0o600)
	if _, err := listen(b.s); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
	if data, _ := os.ReadFile(b.s.listenSocket); string(data) != "precious" {
		t.Error("the file was replaced")
	}
}

func TestNoDaemon(t *testing.T) {
	b := prepare(t, goodConfig)
	b.s.dockerSocket = t.TempDir() + "/nobody"
	var log bytes.Buffer
	getenv := map[string]string{"CONFIG_PATH": b.s.configPath, "LISTEN_SOCKET": b.s.listenSocket, "DOCKER_SOCKET": b.s.dockerSocket, "SANDBOX_SECRETS_DIR": b.s.secretsDir, "FORBIDDEN_SOURCES": "none"}
	if code := run(nil, func(name string) string { return getenv[name] }, &log, &log); code != 1 || !strings.Contains(log.String(), "group_add") {
		t.Errorf("%d %s", code, log.String())
	}
}
