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

// command runs a command line with these settings and no others.
func command(t *testing.T, env map[string]string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for _, name := range []string{"CONFIG_PATH", "LISTEN_SOCKET", "DOCKER_SOCKET", "SANDBOX_SECRETS_DIR", "SANDBOX_SECRETS_WATCH",
		"FORBIDDEN_SOURCES", "SOCKET_MODE", "HUB_UID", "INSTANCE"} {
		t.Setenv(name, env[name])
	}
	var out, errs bytes.Buffer
	code = program.Run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsage(t *testing.T) {
	if code, out, _ := command(t, nil, "--help"); code != 0 || !strings.Contains(out, "HUB_UID") || !strings.Contains(out, "  version ") {
		t.Errorf("help: %d %s", code, out)
	}
	if code, _, errs := command(t, nil, "serve", "here"); code != 2 || !strings.Contains(errs, `"here"`) {
		t.Errorf("unknown word: %d %s", code, errs)
	}
	if code, _, errs := command(t, map[string]string{"CONFIG_PATH": "relative", "INSTANCE": "_"}); code != 2 ||
		!strings.Contains(errs, "CONFIG_PATH") || !strings.Contains(errs, "INSTANCE") {
		t.Errorf("bad settings: %d %s", code, errs)
	}
	only := map[string]string{"FORBIDDEN_SOURCES": "none"}
	if code, _, errs := command(t, only); code != 1 || !strings.Contains(errs, "/config/mcp.json") {
		t.Errorf("no configuration: %d %s", code, errs)
	}
	for _, verb := range []string{"health", "healthcheck"} { // the second as in version 0.1
		if code, _, errs := command(t, only, verb); code != 1 || !strings.Contains(errs, "/run/proxy/docker.sock") {
			t.Errorf("%s without a server: %d %s", verb, code, errs)
		}
	}
}

func TestSocketModeAndHealth(t *testing.T) {
	b := start(t, goodConfig)
	info, err := os.Stat(b.s.listenSocket)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := health(t.Context(), b.s, nil, nil); err != nil {
		t.Errorf("healthy, but: %v", err)
	}
	b.set(func() { b.version = `{}` })
	if err := health(t.Context(), b.s, nil, nil); err == nil {
		t.Error("healthy without a daemon")
	}
	b.stop()
	if err := health(t.Context(), b.s, nil, nil); err == nil {
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
	if err := health(t.Context(), b.s, nil, nil); err != nil {
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
	getenv := map[string]string{"CONFIG_PATH": b.s.configPath, "LISTEN_SOCKET": b.s.listenSocket, "DOCKER_SOCKET": b.s.dockerSocket, "SANDBOX_SECRETS_DIR": b.s.secretsDir, "FORBIDDEN_SOURCES": "none"}
	if code, _, errs := command(t, getenv); code != 1 || !strings.Contains(errs, "group_add") {
		t.Errorf("%d %s", code, errs)
	}
}
