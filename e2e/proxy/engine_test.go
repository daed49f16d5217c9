package proxy

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// TestSandbox looks at a real container from inside and from outside.
func TestSandbox(t *testing.T) {
	b := prepare(t)
	source := rig.PublicDir(t)
	os.WriteFile(source+"/seen", []byte("from the host"), 0o644)
	b.write("keys.env", "API_KEY=from-secrets\n")
	b.config(fmt.Sprintf(`"box": {"type": "docker", "image": "IMAGE", "env": {"HOME": "/tmp", "GREETING": "${G}"}, "secretsFrom": "keys",
		"volumes": ["%s:/data:ro"], "memory": "64m", "pidsLimit": 32, "cpus": 0.5}`, source))
	b.start()
	l := b.run("box", map[string]string{"HOME": "/tmp", "GREETING": "hello"})
	for _, probe := range []struct{ line, want string }{
		{"id -u; id -g", "65532\n65532"},
		{"cat /data/seen", "from the host"},
		{"touch /data/x || echo no", "no"},
		{"touch /x || echo no", "no"},
		{"touch /cache/x && echo yes", "yes"},
		{"touch /tmp/x && echo yes", "yes"},
		{"echo $GREETING $API_KEY $HOME $KEEP", "hello from-secrets /tmp kept"},
		{"env | grep -c LD_PRELOAD", "0"},
		{"grep -E 'NoNewPrivs|CapEff|CapBnd' /proc/self/status", "NoNewPrivs:\t1"},
		{"grep Cap /proc/self/status", "0000000000000000"},
		{"ls /sys/class/net", "lo"},
		{"grep ' /cache ' /proc/mounts", "tmpfs"},
		{"grep ' /tmp ' /proc/mounts", "noexec"},
		{"ulimit -c", "0"},
		{"ls /tmp/healthcheck-ran || echo none", "none"},
	} {
		if got := l.sh(probe.line); !strings.Contains(got, probe.want) {
			t.Errorf("%s: %q, want %q", probe.line, got, probe.want)
		}
	}
	ids := b.containers()
	if len(ids) != 1 {
		t.Fatalf("containers: %v", ids)
	}
	golden(t, b, ids[0], source)
	l.conn.CloseWrite()
	if end := l.end(); end != (wire.End{Reason: wire.EndExited}) {
		t.Errorf("%+v", end)
	}
	b.none()
}

// golden compares docker inspect with testdata/inspect.json, which leaves out
// what is the engine's own or changes with each run.
func golden(t *testing.T, b *bench, id, source string) {
	t.Helper()
	var all []map[string]any
	if err := json.Unmarshal([]byte(b.docker.Run("inspect", id)), &all); err != nil {
		t.Fatal(err)
	}
	picked := map[string]any{"Name": all[0]["Name"], "Mounts": all[0]["Mounts"]}
	for _, part := range []string{"Config", "HostConfig"} {
		picked[part] = all[0][part]
	}
	host := picked["HostConfig"].(map[string]any)
	for _, key := range []string{"Runtime", "MaskedPaths", "ReadonlyPaths", "KernelMemory", "KernelMemoryTCP"} {
		delete(host, key) // differ between engines
	}
	data, _ := json.MarshalIndent(picked, "", "  ")
	text := strings.NewReplacer(source, "SOURCE", b.instance, "INSTANCE").Replace(string(data))
	text = regexp.MustCompile(`sha256:[0-9a-f]{64}`).ReplaceAllString(text, "sha256:ID") + "\n"
	want, err := os.ReadFile("testdata/inspect.json")
	if err == nil && text == string(want) {
		return
	}
	if os.Getenv("UPDATE_GOLDEN") != "" {
		os.MkdirAll("testdata", 0o755)
		os.WriteFile("testdata/inspect.json", []byte(text), 0o644)
	}
	if engine := b.docker.Run("version", "-f", "{{.Server.APIVersion}}"); engine != "1.41" {
		t.Logf("this engine speaks API %s, the golden file is of 1.41: not compared", engine)
		return
	}
	t.Errorf("docker inspect is not testdata/inspect.json (UPDATE_GOLDEN=1 writes it): %v\n%s", err, text)
}

// TestEngineRefuses what only the engine can know.
func TestEngineRefuses(t *testing.T) {
	b := prepare(t)
	volume := b.docker.Run("volume", "create", "--opt", "type=none", "--opt", "o=bind", "--opt", "device=/etc")
	t.Cleanup(func() { b.docker.Try("volume", "rm", volume) })
	missing := rig.PublicDir(t) + "/not-there"
	b.config(fmt.Sprintf(`
		"source":   {"type": "docker", "image": "IMAGE", "volumes": ["%s:/data"]},
		"disguise": {"type": "docker", "image": "IMAGE", "volumes": ["%s:/data"]},
		"novolume": {"type": "docker", "image": "IMAGE", "volumes": ["%s-absent:/data"]},
		"noimage":  {"type": "docker", "image": "%s-absent"},
		"toor":     {"type": "docker", "image": "IMAGE", "user": "toor"},
		"loose":    {"type": "docker", "image": "IMAGE", "user": "loose"},
		"nonet":    {"type": "docker", "image": "IMAGE", "network": "%s-absent"},
		"nofile":   {"type": "docker", "image": "IMAGE", "entrypoint": ["/not-there"]}`, missing, volume, b.docker.Name, b.docker.Name, b.docker.Name))
	b.start()
	for server, why := range map[string]string{"source": "bind source path does not exist", "disguise": "only plain local volumes",
		"novolume": "docker volume create", "noimage": `"pull" is "never"`, "toor": "root is refused", "loose": "root is refused"} {
		if reply := b.dial().ensure(server, nil); reply.OK || !strings.Contains(reply.Error, why) {
			t.Errorf("%s: %+v", server, reply)
		}
	}
	for server, why := range map[string]string{"nonet": "not found", "nofile": "not-there"} {
		l := b.dial()
		reply := l.ensure(server, nil)
		if reply.OK {
			reply = l.ask(wire.Request{Verb: wire.VerbAttach, Server: server})
		}
		if reply.OK || !strings.Contains(reply.Error, why) {
			t.Errorf("%s: %+v", server, reply)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the missing source was made")
	}
	if out, err := b.docker.Try("volume", "inspect", b.docker.Name+"-absent"); err == nil {
		t.Errorf("the missing volume was made: %s", out)
	}
	b.none()
}

// TestNoGroupOfRoot: Docker gives a user without a group root's, unless the
// image says otherwise, and a named one all groups that list it. Each user is
// tried without us as well.
func TestNoGroupOfRoot(t *testing.T) {
	b := prepare(t)
	image := b.docker.Name + "-numbered"
	cmd := exec.Command("docker", "import", "-c", `ENTRYPOINT ["/bin/sh", "/server.sh"]`, "-c", "USER 1000", "-", image)
	cmd.Stdin = filesystem(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("docker import: %v\n%s", err, out)
	}
	t.Cleanup(func() { b.docker.Try("rmi", "-f", image) })
	b.config(`"image": {"type": "docker", "image": "` + image + `"},
		"number": {"type": "docker", "image": "IMAGE", "user": "2000"},
		"named":  {"type": "docker", "image": "IMAGE", "user": "app", "tmpfs": ["/own:mode=0700"]},
		"crew":   {"type": "docker", "image": "IMAGE", "user": "1234:crew"}`)
	b.start()
	for _, test := range []struct{ server, user, want string }{
		{"image", "1000", "1000 1000 1000"}, {"number", "2000", "2000 2000 2000"},
		{"named", "app", "1234 1235 1235"}, {"crew", "", "1234 77 77"},
	} {
		if test.user != "" {
			bare := b.docker.Run("run", "--rm", "--network", "none", "--user", test.user, "--entrypoint", "/bin/id", b.image, "-G")
			if !slices.Contains(strings.Fields(bare), "0") {
				t.Errorf("%s has no group of root's without us: %q", test.user, bare)
			}
		}
		l := b.run(test.server, nil)
		if got := l.sh("echo $(id -u) $(id -g) $(id -G)"); got != test.want {
			t.Errorf("%s: %q, want %q", test.server, got, test.want)
		}
		if test.server == "named" {
			if got := l.sh("touch /own/x && echo mine"); got != "mine" {
				t.Errorf("a named user's tmpfs: %q", got)
			}
		}
	}
}

// TestRestarts: a killed proxy and a killed container leave nothing, and the
// next start works.
func TestRestarts(t *testing.T) {
	b := prepare(t)
	b.config(`"box": {"type": "docker", "image": "IMAGE"}, "deaf": {"type": "docker", "image": "IMAGE", "entrypoint": ["/bin/sleep", "1000"]}`)
	b.start()
	l := b.run("box", nil)
	b.docker.Run("kill", b.containers()[0])
	if end := l.end(); end.Reason != wire.EndExited || end.ExitCode != 137 {
		t.Errorf("killed from outside: %+v", end)
	}

	b.run("deaf", nil)
	b.run("box", nil)
	b.process.Cmd.Process.Signal(syscall.SIGKILL)
	<-b.process.Done
	rig.Until(t, "what reads its stdin is gone", func() bool { return len(b.containers()) == 1 })
	b.start() // over the stale socket
	b.none()
	if got := b.run("box", nil).sh("echo again"); got != "again" {
		t.Errorf("%q", got)
	}

	l = b.run("deaf", nil)
	begun := time.Now()
	b.process.Stop()
	if end := l.end(); end.Reason != wire.EndStopped {
		t.Errorf("%+v after %s", end, time.Since(begun))
	}
	b.none()
}

// cycles starts and drops a server n times; nothing of it may stay, neither
// containers nor descriptors of the proxy.
func (b *bench) cycles(n int) {
	b.t.Helper()
	descriptors := func() int {
		all, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.process.Cmd.Process.Pid))
		return len(all)
	}
	b.run("box", nil).conn.Close()
	b.none()
	begun, before := time.Now(), descriptors()
	for range n {
		l := b.run("box", nil)
		l.sh("echo hi")
		l.conn.Close()
	}
	b.t.Logf("%d starts, each %s", n, time.Since(begun)/time.Duration(n))
	b.none()
	rig.Until(b.t, "the descriptors are closed", func() bool { return descriptors() <= before+2 }, b.process)
}

// TestSoakRestarts: 20 starts, 200 in make soak.
func TestSoakRestarts(t *testing.T) {
	b := prepare(t)
	b.config(`"box": {"type": "docker", "image": "IMAGE"}`)
	b.start()
	if os.Getenv("SALLYPORT_SOAK") != "" {
		b.cycles(200)
	} else {
		b.cycles(20)
	}
}

// TestTwoInstances on one engine leave each other alone.
func TestTwoInstances(t *testing.T) {
	one := prepare(t)
	one.config(`"box": {"type": "docker", "image": "IMAGE"}`)
	one.start()
	l := one.run("box", nil)
	two := prepare(t)
	two.config(`"box": {"type": "docker", "image": "IMAGE"}`)
	two.start()
	m := two.run("box", nil)
	if got := l.sh("echo one") + m.sh("echo two"); got != "onetwo" {
		t.Errorf("%q", got)
	}
	two.process.Stop()
	if got := l.sh("echo still"); got != "still" || len(two.containers()) != 0 {
		t.Errorf("%q, left %v", got, two.containers())
	}
}

// TestRotation on the engine: only the server whose secrets change restarts.
func TestRotation(t *testing.T) {
	b := prepare(t)
	b.write("keys.env", "KEY=one")
	b.config(`"with": {"type": "docker", "image": "IMAGE", "secretsFrom": "keys"}, "without": {"type": "docker", "image": "IMAGE"}`)
	b.start()
	with, without := b.run("with", nil), b.run("without", nil)
	b.write("keys.env", "KEY=two")
	if end := with.end(); end.Reason != wire.EndSecrets {
		t.Errorf("%+v", end)
	}
	if got := b.run("with", nil).sh("echo $KEY"); got != "two" {
		t.Errorf("%q", got)
	}
	if got := without.sh("echo alive"); got != "alive" {
		t.Errorf("%q", got)
	}
	if strings.Contains(b.process.Log.String(), "KEY=") {
		t.Error("a value is in the log")
	}
}
