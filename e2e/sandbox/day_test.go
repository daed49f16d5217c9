package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// work is one thing that a coding assistant does all day, with the real tool.
type work struct {
	name, script, want string
	fails              bool   // the command is to fail, with this in its notices
	notice             string // what a notice says
	seconds            int    // its time, 100 unless given
}

// setup writes the small projects that the tools work on.
const setup = `set -e
mkdir -p js vit gorace py java
for i in $(seq 1 22); do
  echo "test('adds $i', () => expect($i + 1).toBe($((i + 1))))" >js/t$i.test.js
done
echo '{"jest": {"testEnvironment": "node", "watchman": false}}' >js/package.json
echo "import { test, expect } from 'vitest'; import fs from 'fs'; import os from 'os'
test('adds', () => { fs.writeFileSync(os.tmpdir() + '/x', 'x'); expect(1 + 1).toBe(2) })" >vit/a.test.mjs
printf 'module m\n\ngo 1.24\n' >gorace/go.mod
printf 'package m\nimport ("sync"; "testing")\nfunc TestMany(t *testing.T) { var w sync.WaitGroup; var m sync.Mutex; n := 0\nfor range 50 { w.Go(func() { m.Lock(); n++; m.Unlock() }) }; w.Wait(); if n != 50 { t.Fatal(n) } }\n' >gorace/m_test.go
printf 'def test_tmp(tmp_path):\n    (tmp_path / "f").write_text("x <- y && z")\n    assert (tmp_path / "f").read_text() == "x <- y && z"\n' >py/test_a.py
printf 'import java.io.*; import org.junit.*;\npublic class ATest { @Test public void temp() throws Exception { File f = File.createTempFile("abc", "d"); Assert.assertTrue(f.exists()); Assert.assertTrue(f.getPath().startsWith(System.getenv("TMPDIR"))); Assert.assertEquals(System.getenv("HOME"), System.getProperty("user.home")); } }\n' >java/ATest.java
git config --global user.email a@example.net; git config --global user.name a; git config --global init.defaultBranch main
`

var day = []work{
	{name: "jest with 11 workers", script: `cd js && node ../node_modules/jest/bin/jest.js -w 11 --ci 2>&1 | tail -5`, want: "Tests:       22 passed"},
	{name: "vitest", script: `cd vit && ln -sfn ../node_modules node_modules && node node_modules/vitest/vitest.mjs run 2>&1 | tail -6`, want: "1 passed"},
	{name: "go test -race", script: `cd gorace && CGO_ENABLED=1 GOTOOLCHAIN=local GOFLAGS=-mod=mod go test -race -vet=off . 2>&1`, want: "ok  \tm\t", seconds: 120},
	{name: "pytest", script: `cd py && /usr/bin/python3 -m pytest -q 2>&1 | tail -1`, want: "1 passed"},
	{name: "javac and JUnit", script: `cd java && CP=/usr/share/java/junit4.jar:/usr/share/java/hamcrest-core.jar:. && javac -cp $CP ATest.java && java -cp $CP org.junit.runner.JUnitCore ATest`, want: "OK (1 test)"},
	{name: "C with the address sanitizer", script: `printf 'int main(void) { return 0; }' >a.c && gcc -fsanitize=address -o a.out a.c && ./a.out && echo clean; printf '#include <stdlib.h>\nint main(void) { char *p = malloc(1); return p[1]; }' >b.c; gcc -fsanitize=address -o b.out b.c && ./b.out 2>&1 | grep -o heap-buffer-overflow | head -1; ASAN_OPTIONS= ./a.out 2>/dev/null || echo twin`, want: "clean\nheap-buffer-overflow\ntwin"},
	{name: "git with hooks", script: `git init -q r && cd r && printf '#!/bin/sh\necho hook ran' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit && echo 1 >f && git add f && git commit -qm one 2>&1 && git log --oneline | wc -l`, want: "hook ran\n1"},
	{name: "git gc of 9,000 loose objects", script: `cd r && python3 -c "
import hashlib, os, zlib
for i in range(9000):
    raw = b'blob %d\0%d' % (len(str(i)), i); h = hashlib.sha1(raw).hexdigest()
    os.makedirs('.git/objects/' + h[:2], exist_ok=True); open('.git/objects/' + h[:2] + '/' + h[2:], 'wb').write(zlib.compress(raw))" &&
git gc --auto 2>&1 | tail -3; ls .git/gc.pid .git/gc.log.lock .git/*.lock 2>/dev/null; git status --short; git count-objects -v | grep packs; echo clean`, want: "packs: 1\nclean"},
	{name: "a linked worktree inside", script: `cd r && git worktree add -q ../wt -b side 2>&1 && cd ../wt && echo 2 >g && git add g && git commit -qm two && git -C ../r log --all --oneline | wc -l`, want: "2"},
	{name: "a commit whose hook does not end", script: `cd r && printf '#!/bin/sh\nsleep 100' >.git/hooks/pre-commit && echo 3 >f && git commit -qam three`, fails: true, seconds: 2},
	{name: "and git afterwards", script: `cd r && rm .git/hooks/pre-commit && ls .git/*.lock 2>/dev/null; git commit -qam three && echo committed`, want: "committed"},
	{name: "a program that cleans up on TERM", script: `python3 -c "
import signal, sys, time
def end(*a): open('cleaned', 'w').close(); sys.exit(0)
signal.signal(signal.SIGTERM, end); time.sleep(100)"`, fails: true, seconds: 2},
	{name: "what it left", script: `ls cleaned`, want: "cleaned"},
	{name: "one that leaves its lock", script: `trap '' TERM; echo >x.lock; sleep 100; sleep 100`, fails: true, seconds: 2, notice: `x.lock`},
}

// doDay does all of it and names what does not work.
func doDay(t *testing.T, session *mcp.ClientSession) {
	if got := call(t, session, work{script: setup + "echo set up"}); !strings.Contains(got.text, "set up") {
		t.Fatalf("setup: %s", got.text)
	}
	for _, w := range day {
		t.Run(w.name, func(t *testing.T) {
			got := call(t, session, w)
			if got.failed != w.fails || !strings.Contains(got.text, w.want) || !strings.Contains(got.text, w.notice) {
				t.Errorf("want %q and a notice with %q, got\n%s", w.want, w.notice, got.text)
			}
		})
	}
}

type said struct {
	text   string
	failed bool
}

func call(t *testing.T, session *mcp.ClientSession, w work) said {
	t.Helper()
	if w.seconds == 0 {
		w.seconds = 100
	}
	res := rig.TryCall(t, session, "run_command", rig.Args{"command": w.script, "timeout_seconds": w.seconds})
	text := ""
	for _, c := range res.Content {
		text += c.(*mcp.TextContent).Text + "\n"
	}
	return said{text, res.IsError}
}

// devtools are jest and vitest, and what Debian has of the rest.
func devtools(t *testing.T) (modules string) {
	for _, name := range []string{"node", "javac", "gcc", "git", "python3", "curl"} {
		rig.NeedCommand(t, name)
	}
	for _, file := range []string{"/usr/share/java/junit4.jar", "/usr/lib/python3/dist-packages/pytest"} {
		_, err := os.Stat(file)
		rig.Need(t, err, file)
	}
	return filepath.Join(rig.NPM(t, "devtools"), "node_modules")
}

// bare serves a workspace on this machine, as make run does.
func bare(t *testing.T, modules string, env ...string) *mcp.ClientSession {
	t.Helper()
	rig.NeedRoot(t)
	workspace := filepath.Join(rig.PublicDir(t), "workspace")
	if out, err := exec.Command("sh", "-c", fmt.Sprintf("mkdir %[1]s && { [ -z '%[2]s' ] || cp -r %[2]s %[1]s/node_modules; } && chown -R %[3]s:%[3]s %[1]s", workspace, modules, uid)).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := rig.StartSandboxd(t, rig.SandboxdOptions{Workspace: workspace, Env: env})
	return rig.Connect(t, s.URL+"/mcp-sandbox", s.Token, rig.Streamable)
}

// The day of a coding assistant, on a bare machine and in the locked container.
func TestDayOfAnAssistant(t *testing.T) {
	modules := devtools(t)
	rig.Lock(t, "cpu")
	t.Run("bare", func(t *testing.T) {
		session := bare(t, modules)
		doDay(t, session)
		unixSockets(t, session, false)
	})
	t.Run("container", func(t *testing.T) {
		session := contained(t, modules)
		doDay(t, session)
		unixSockets(t, session, true)
	})
}

// unixSockets opens one. Where they are refused, a notice says so, and nowhere else.
func unixSockets(t *testing.T, session *mcp.ClientSession, allowed bool) {
	t.Helper()
	got := call(t, session, work{script: `python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'`})
	if got.failed == allowed || strings.Contains(got.text, "and no Unix sockets") == allowed {
		t.Errorf("Unix sockets allowed %t: %s", allowed, got.text)
	}
	got = call(t, session, work{script: `python3 -c 'import socket; socket.socket()'`})
	if !got.failed || strings.Contains(got.text, "and no Unix sockets") == allowed ||
		!strings.Contains(got.text, "not even loopback") {
		t.Errorf("a network, Unix sockets allowed %t: %s", allowed, got.text)
	}
}

// contained serves in the locked container, to which this machine lends its tools.
func contained(t *testing.T, modules string, more ...string) *mcp.ClientSession {
	t.Helper()
	d := rig.NeedImages(t)
	lent := []string{"-v", "/usr:/usr:ro", "-v", "/etc/alternatives:/etc/alternatives:ro", "-v", "/etc/java-17-openjdk:/etc/java-17-openjdk:ro",
		"-v", modules + ":/workspace/node_modules:ro", "--memory", "2g", "-p", "127.0.0.1::8000"}
	id := d.Container(serve(t, append(lent, more...)...)...)
	addr := strings.TrimSpace(d.Run("port", id, "8000"))
	rig.Until(t, "the sandbox's health", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 })
	return rig.Connect(t, "http://"+addr+"/mcp-sandbox", strings.Repeat("t", 43), rig.Streamable)
}

// A server of one's own with a client beside it needs loopback: the container's
// network has it, no network has not, and the description says so.
func TestDevServerWithCurl(t *testing.T) {
	const script = `mkdir -p web && echo served >web/index.html && (cd web && exec python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &) ; for i in $(seq 100); do curl -sf http://127.0.0.1:8123/ && break; sleep .3; done`
	modules := devtools(t)
	rig.Lock(t, "cpu")
	if got := call(t, bare(t, "", "MCP_COMMAND_NETWORK=container"), work{script: script}); !strings.Contains(got.text, "served") {
		t.Errorf("bare: %s", got.text)
	}
	if got := call(t, contained(t, modules, "-e", "MCP_COMMAND_NETWORK=container"), work{script: script}); !strings.Contains(got.text, "served") {
		t.Errorf("container: %s", got.text)
	}
	if got := call(t, bare(t, ""), work{script: strings.Replace(script, "100", "10", 1)}); strings.Contains(got.text, "served") {
		t.Errorf("without a network: %s", got.text)
	}
}

// Java's client offers h2c to a server without TLS; a server of one's own beside it
// in one command answers.
func TestJavaClientBesideItsServer(t *testing.T) {
	rig.NeedCommand(t, "java")
	const script = `cat >H.java <<'E'
import java.net.*; import java.net.http.*; import com.sun.net.httpserver.*;
public class H { public static void main(String[] a) throws Exception {
  var s = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
  s.createContext("/", x -> { var b = ("offered " + x.getRequestHeaders().getFirst("Upgrade")).getBytes(); x.sendResponseHeaders(200, b.length); x.getResponseBody().write(b); x.close(); });
  s.start();
  var to = URI.create("http://127.0.0.1:" + s.getAddress().getPort() + "/");
  System.out.println(HttpClient.newHttpClient().send(HttpRequest.newBuilder(to).build(), HttpResponse.BodyHandlers.ofString()).body());
  System.exit(0);
} }
E
java H.java`
	rig.Lock(t, "cpu")
	if got := call(t, bare(t, "", "MCP_COMMAND_NETWORK=container"), work{script: script}); !strings.Contains(got.text, "offered h2c") {
		t.Errorf("%s", got.text)
	}
}

// Where the processes do not suffice, the answer says which limit it was and
// which setting raises it; with them the same command works.
func TestTooFewProcessesAreNamed(t *testing.T) {
	modules := devtools(t)
	rig.Lock(t, "cpu")
	jest := day[0]
	jest.script = setup + jest.script + `; exit 0`
	session := bare(t, modules, "MCP_MAX_PROCESSES=60")
	list, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		if tool.Name == "run_command" && !strings.Contains(tool.Description, "may have 60 processes and threads") {
			t.Errorf("the description: %s", tool.Description)
		}
	}
	jest.script = strings.Replace(jest.script, "2>&1 | tail -5; exit 0", "2>&1", 1)
	jest.seconds = 60
	if got := call(t, session, jest); !got.failed || !strings.Contains(got.text, "MCP_MAX_PROCESSES") || !strings.Contains(got.text, "60 for all running commands") {
		t.Errorf("%.2000s", got.text)
	}
}
