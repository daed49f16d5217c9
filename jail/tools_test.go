package jail_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/jail"
)

// tool is what a developer does, with what it prints at its end.
type tool struct {
	name, needs, script string
	// container: it needs what only a container has for itself.
	container bool
}

var tools = []tool{
	{"git", "git", `git init -q r && cd r && git config user.email a@b && git config user.name n && echo 1 > f && git add f && git commit -qm one &&
		echo 2 > f && git diff --stat | tail -1 | grep -c insertion && git clone -q . ../r2 && test -f ../r2/f && echo ok`, false},
	{"move across directories", "sh", `mkdir -p a b && echo x > a/f && mv -T a/f b/f && ln b/f a/g && rm -r a b && echo ok`, false},
	{"gcc and make -j", "gcc", `printf 'int main(){return 0;}' > m.c; printf 'all: a b c d\n%%: m.c\n\tgcc -o $@ m.c\n' > Makefile; make -j4 >/dev/null && ./a && ./d && echo ok`, false},
	{"go build", "go", `mkdir m && cd m && printf 'module m\ngo 1.21\n' > go.mod && printf 'package main\nfunc main() { println("ok") }\n' > main.go && go build -o prog . && ./prog 2>&1`, false},
	{"python threads and subprocesses", "python3", `python3 -c "
import threading, subprocess, asyncio, tempfile, concurrent.futures as f
ts=[threading.Thread(target=lambda: None) for _ in range(8)]; [t.start() for t in ts]; [t.join() for t in ts]
assert subprocess.run(['echo','hi'],capture_output=True).stdout==b'hi\n'
assert list(f.ThreadPoolExecutor(4).map(abs,[-1,-2]))==[1,2]
tempfile.NamedTemporaryFile().write(b'x')
print('ok')"`, false},
	{"node", "node", `echo 'const c=require("child_process"); require("fs").writeFileSync("n","x"); console.log(c.execSync("echo ok").toString().trim())' > a.js && node a.js`, false},
	{"tar", "tar", `mkdir t && echo x > t/f && chmod 750 t/f && tar czf t.tgz t && rm -r t && tar xzf t.tgz && test -x t/f && echo ok`, false},
	{"process substitution", "bash", `bash -c 'diff <(echo a) <(echo a) && echo a > >(cat >/dev/null) && echo ok'`, false},
	{"a here document and a FIFO", "sh", `mkfifo p && (cat p > out &) && cat > p <<X
ok
X
while ! test -s out; do sleep .01; done; cat out`, false},
	{"timeout, nohup, setsid, nice, mktemp", "setsid", `timeout 60 nohup setsid -w nice -n 5 mktemp >/dev/null && echo ok`, false},
	{"taskset of itself", "taskset", `taskset -c 0 true && echo ok`, false},
	{"a pseudo terminal", "script", `script -qec 'test -t 0 && echo ok > seen' /dev/null >/dev/null </dev/null; cat seen`, true},
	{"multiprocessing", "python3", `python3 -c "
import multiprocessing as m
print('ok' if m.Pool(2).map(abs,[-1,-2])==[1,2] else 'wrong')"`, true},
	{"ls /", "ls", `ls / >/dev/null && echo ok`, true},
	{"accounts and kernel facts", "ls", `head -1 /etc/passwd >/dev/null && cat /proc/self/status /sys/devices/system/cpu/online >/dev/null && echo x > /dev/shm/x$$ && rm /dev/shm/x$$ && ls /opt >/dev/null && echo ok`, true},
}

func TestDeveloperTools(t *testing.T) {
	for _, container := range []bool{false, true} {
		j, dir := newJailWith(t, jail.Config{Mode: jail.Full, Network: jail.None, InContainer: container})
		for _, tool := range tools {
			if container && tool.needs == "go" {
				continue // half a minute, and nothing in it differs
			}
			name := tool.name
			if container {
				name += " in a container"
			}
			t.Run(name, func(t *testing.T) { tool.try(t, j, dir, container || contained) })
		}
	}
}

func (tool tool) try(t *testing.T, j *jail.Jail, dir string, container bool) {
	work, err := os.MkdirTemp(dir, "tool")
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.Open(work)
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	env := []string{"HOME=" + work, "TMPDIR=" + work, "GOCACHE=" + work + "/cache", "GOPATH=" + work + "/go", "GOTOOLCHAIN=local",
		"LANG=C.UTF-8", "PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if _, err := exec.LookPath("/usr/bin/" + tool.needs); err != nil && tool.needs != "go" {
		if os.Getenv("CI") != "" && !contained {
			t.Fatalf("%s is not installed", tool.needs)
		}
		t.Skipf("%s is not installed", tool.needs)
	}
	res, out, stderr := run(t, j, jail.Command{Args: sh(tool.script), Env: env, Dir: home, Timeout: 4 * long})
	works := res.ExitCode == 0 && strings.HasSuffix(strings.TrimSpace(out), "ok")
	if works != (container || !tool.container) {
		t.Errorf("works: %v: %+v\n%s%s", works, res, out, stderr)
	}
}

// With the container's network a program can listen on localhost and call
// itself; without, the same one cannot.
func TestLocalListener(t *testing.T) {
	const listen = `python3 -c "
import socket
assert socket.if_nameindex()
s=socket.create_server(('127.0.0.1',0)); c=socket.create_connection(s.getsockname()); c.send(b'ok'); print(s.accept()[0].recv(2).decode())"`
	for _, network := range []jail.Network{jail.Container, jail.None} {
		j, dir := newJailWith(t, jail.Config{Mode: jail.Full, Network: network})
		tool{"a listener", "python3", listen, network == jail.None}.try(t, j, dir, false)
	}
}
