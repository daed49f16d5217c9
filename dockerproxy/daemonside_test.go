package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
)

// refusedBecause ensures the server and wants an error that says why, with no
// container left.
func (b *bench) refusedBecause(server, why string) {
	b.t.Helper()
	reply := b.greet().ask(b.ensureLine(server, nil))
	if reply.OK || reply.Code != wire.CodeFailed || !strings.Contains(reply.Error, why) {
		b.t.Errorf("%s: %+v, want %q", server, reply, why)
	}
	b.until("nothing is left", func() bool { return len(b.names()) == 0 })
}

func TestNegotiation(t *testing.T) {
	for _, test := range []struct{ version, pinned string }{
		{`{"ApiVersion":"1.41","MinAPIVersion":"1.12"}`, "1.41"},
		{`{"ApiVersion":"1.51","MinAPIVersion":"1.24"}`, "1.51"},
		{`{"ApiVersion":"1.57","MinAPIVersion":"1.44"}`, "1.57"},
		{`{"ApiVersion":"1.99","MinAPIVersion":"1.44"}`, "1.57"},
		{`{"ApiVersion":"1.40","MinAPIVersion":"1.12"}`, ""},
		{`{"ApiVersion":"1.99","MinAPIVersion":"1.58"}`, ""},
		{`{"ApiVersion":"2.50","MinAPIVersion":"2.1"}`, ""},
		{`{}`, ""},
		{`not JSON`, ""},
	} {
		f := newFake(t)
		f.version = test.version
		d := newDaemon(f.socket)
		if err := d.negotiate(t.Context()); (err == nil) != (test.pinned != "") || (err == nil && d.api() != test.pinned) {
			t.Errorf("%s: %s, %v, want %q", test.version, d.api(), err, test.pinned)
		}
	}
}

func TestImages(t *testing.T) {
	image := func(config string) string { return `{"Id":"sha256:2","Config":` + config + `}` }
	b := start(t, `{"mcpServers": {
		"absent": {"type": "docker", "image": "absent"},
		"root":   {"type": "docker", "image": "root"},
		"fs":     {"type": "docker", "image": "fs"},
		"noid":   {"type": "docker", "image": "noid"}}}`)
	b.set(func() {
		b.images["root"] = image(`{"User":"0:0"}`)
		b.images["fs"] = image(`{"Volumes":{"/":{}}}`)
		b.images["noid"] = `{}`
	})
	b.refusedBecause("absent", `image "absent" is not present and "pull" is "never"`)
	b.refusedBecause("root", "root is refused")
	b.refusedBecause("fs", "cannot be covered")
	b.refusedBecause("noid", "has no id")
	for _, r := range b.requests() {
		if strings.HasPrefix(r, "POST") {
			t.Errorf("sent: %s", r)
		}
	}
}

// TestUserNames: a name is what the image's files make of it, and it is that
// number which Docker is given.
func TestUserNames(t *testing.T) {
	b := start(t, `{"mcpServers": {"n": {"type": "docker", "image": "img", "user": "app"}, "g": {"type": "docker", "image": "img", "user": "app:crew"}}}`)
	set := func(kind byte, passwd, group string) {
		b.set(func() { b.files = map[string]fakeFile{"/etc/passwd": {kind, passwd}, "/etc/group": {kind, group}} })
	}
	const good = "root:x:0:0::/:\napp:x:1000:1001::/:\n"
	for _, test := range []struct{ server, passwd, group, why string }{
		{"n", "root:x:0:0::/:/bin/sh\nother:x:5:5::/:\n", "", "has no app in /etc/passwd"},
		{"n", "app:x:0:5::/:\n", "", "root is refused"},
		{"n", "app:x:00:5::/:\n", "", "root is refused"},
		{"n", "app:x:5:0::/:\n", "", "root is refused"},
		{"n", "app:x:0:0::/:\napp:x:5:5::/:\n", "", "root is refused"},
		{"n", "app:x::5::/:\n", "", "is not user or user:group"},
		{"n", "app:x:5:::/:\n", "", "is not user or user:group"},
		{"n", "app:x:five:5::/:\n", "", "no numbers"},
		{"n", "app:x:-5:5::/:\n", "", "is not user or user:group"},
		{"n", "app:x:99999999999:5::/:\n", "", "is not a user number"},
		{"n", "app", "", "has no app"},
		{"n", "", "", "has no app"},
		{"g", good, "crew:x:0:\n", "root is refused"},
		{"g", good, "crew:x:root:\n", "root is refused"},
		{"g", good, "other:x:5:\n", "has no crew in /etc/group"},
		{"g", "app:x:0:5::/:\n", "crew:x:5:\n", "root is refused"},
	} {
		set(tar.TypeReg, test.passwd, test.group)
		b.refusedBecause(test.server, test.why)
	}
	set(tar.TypeSymlink, "", "")
	b.refusedBecause("n", "name a number")
	set(tar.TypeReg, good, "root:x:0:app\ncrew:x:77:\n")
	for server, want := range map[string]string{"n": "1000:1001", "g": "1000:77"} {
		b.run(server, nil)
		all := b.requests()
		last := ""
		for _, r := range all {
			if strings.HasPrefix(r, "POST") && strings.Contains(r, "/containers/create") {
				last = r
			}
		}
		if !strings.Contains(last, `"User":"`+want+`"`) || !strings.Contains(last, "uid=1000,gid="+want[5:]) {
			t.Errorf("%s is not %s: %s", server, want, last)
		}
	}
}

func TestPullMissing(t *testing.T) {
	digest := "sha256:" + strings.Repeat("ab", 32)
	b := start(t, `{"mcpServers": {
		"tag":    {"type": "docker", "pull": "missing", "image": "reg:5000/a/b:v1"},
		"bare":   {"type": "docker", "pull": "missing", "image": "reg:5000/a/b"},
		"digest": {"type": "docker", "pull": "missing", "image": "a/b:v1@`+digest+`"},
		"error":  {"type": "docker", "pull": "missing", "image": "error"}}}`)
	for server, want := range map[string]string{
		"tag":    "fromImage=reg%3A5000%2Fa%2Fb&tag=v1",
		"bare":   "fromImage=reg%3A5000%2Fa%2Fb&tag=latest",
		"digest": "fromImage=a%2Fb&tag=sha256%3A" + digest[7:],
	} {
		h := b.greet()
		h.ask(b.ensureLine(server, nil))
		h.conn.Close()
		if all := strings.Join(b.requests(), "\n"); !strings.Contains(all, "POST /v1.41/images/create?"+want) {
			t.Errorf("%s: %s", server, all)
		}
	}
	b.set(func() {
		b.answers["POST /images/create"] = "HTTP/1.1 200 OK\r\n\r\n{\"status\":\"x\"}\n{\"error\":\"no such manifest\"}\n"
	})
	b.refusedBecause("error", "no such manifest")
}

// TestHubGoneWhilePulling: the next hub need not wait for the end of a pull
// that nobody waits for.
func TestHubGoneWhilePulling(t *testing.T) {
	b := start(t, `{"mcpServers": {"s": {"type": "docker", "pull": "missing", "image": "endless"}}}`)
	h := b.greet()
	if _, err := h.conn.Write([]byte(b.ensureLine("s", nil) + "\n")); err != nil {
		t.Fatal(err)
	}
	b.until("the pull", func() bool { return strings.Contains(strings.Join(b.requests(), "\n"), "/images/create") })
	if reply := b.greet().ask(b.ensureLine("s", nil)); reply.Code != wire.CodeBusy {
		t.Errorf("while it lasts: %+v", reply)
	}
	h.conn.Close()
	b.set(func() { b.images["endless"] = goodImage })
	b.until("the claim is free", func() bool { return b.greet().ask(b.ensureLine("s", nil)).OK })
}

// TestVolumes: a volume that does not exist would be made, and one with
// options can be a bind mount of /etc.
func TestVolumes(t *testing.T) {
	b := start(t, `{"mcpServers": {"v": {"type": "docker", "image": "img", "volumes": ["data:/data"]}}}`)
	b.refusedBecause("v", `volume "data" does not exist`)
	b.set(func() { b.volumes["data"] = `{"Driver":"local","Options":{"o":"bind","device":"/etc","type":"none"}}` })
	b.refusedBecause("v", "only plain local volumes")
	b.set(func() { b.volumes["data"] = `{"Driver":"nfs","Options":null}` })
	b.refusedBecause("v", "only plain local volumes")
	b.set(func() { b.volumes["data"] = `{"Driver":"local","Options":null}` })
	b.run("v", nil)
}

func TestDaemonRefuses(t *testing.T) {
	b := start(t, goodConfig)
	say := func(status, message string) string {
		return "HTTP/1.1 " + status + "\r\n\r\n{\"message\":\"" + message + "\"}"
	}
	b.set(func() {
		b.answers["POST /containers/create"] = say("400 Bad Request", "bind source path does not exist: /srv/x")
	})
	b.refusedBecause("plain", "bind source path does not exist: /srv/x")

	// What the daemon says may quote the environment.
	b.set(func() {
		b.answers["POST /containers/create"] = say("400 Bad Request", "invalid: SECRET=s3cret-value KEY=hub-value")
	})
	reply := b.greet().ask(b.ensureLine("s", keyed))
	if text := reply.Error + b.log.String(); reply.OK || strings.Contains(text, "s3cret") || strings.Contains(text, "hub-value") {
		t.Errorf("a value came back: %s", text)
	}
}

// TestAttachIsNotSplicedBefore101: whatever else the daemon says, no byte of
// the hub follows.
func TestAttachIsNotSplicedBefore101(t *testing.T) {
	b := start(t, goodConfig)
	for status, want := range map[string]string{
		"200 OK\r\nContent-Length: 2\r\n\r\nhi":                              "200 OK",
		"404 Not Found\r\nContent-Length: 18\r\n\r\n{\"message\":\"gone\"} ": "gone",
		"500 x\r\n\r\n": "500 x",
	} {
		h := b.greet()
		h.must(b.ensureLine("plain", nil))
		path := "POST /containers/" + b.greet().must(`{"verb":"status"}`).States["plain"].ID + "/attach"
		b.set(func() { b.answers[path] = "HTTP/1.1 " + status })
		reply := h.ask(`{"verb":"attach","server":"plain"}` + "\nfor the server's stdin")
		if reply.OK || !strings.Contains(reply.Error, want) {
			t.Errorf("%q: %+v", status, reply)
		}
		b.until("nothing is left", func() bool { return len(b.names()) == 0 })
	}
	for _, r := range b.requests() {
		if strings.Contains(r, "stdin ") || strings.Contains(r, "/start") {
			t.Errorf("sent: %s", r)
		}
	}
}

func TestStartFails(t *testing.T) {
	b := start(t, goodConfig)
	h := b.greet()
	h.must(b.ensureLine("plain", nil))
	b.set(func() {
		for id := range b.containers {
			b.answers["POST /containers/"+id+"/start"] = "HTTP/1.1 400 Bad Request\r\n\r\n{\"message\":\"exec: not found\"}"
		}
	})
	if reply := h.ask(`{"verb":"attach","server":"plain"}`); reply.OK || !strings.Contains(reply.Error, "exec: not found") {
		t.Errorf("%+v", reply)
	}
	b.until("nothing is left", func() bool { return len(b.names()) == 0 })
	h = b.greet()
	h.must(b.ensureLine("s", keyed))
	b.set(func() {
		for id := range b.containers {
			b.answers["POST /containers/"+id+"/start"] = "HTTP/1.1 400 Bad Request\r\n\r\n{\"message\":\"SECRET=s3cret-value\"}"
		}
	})
	if reply := h.ask(`{"verb":"attach","server":"s"}`); reply.OK || strings.Contains(reply.Error+b.log.String(), "s3cret") {
		t.Errorf("a value came back: %+v", reply)
	}
	b.until("nothing is left", func() bool { return len(b.names()) == 0 })
}

func TestHostileStream(t *testing.T) {
	b := start(t, goodConfig)
	b.runs(func(c *fakeContainer) { // claims 4 GiB, sends 100 KiB, then breaks off
		c.conn.Write([]byte{1, 0, 0, 0, 255, 255, 255, 255})
		c.conn.Write(bytes.Repeat([]byte("x"), 100<<10))
	})
	stdout, _, end := b.run("plain", nil).frames()
	if len(stdout) != 100<<10 || end.Reason != wire.EndLost {
		t.Errorf("%d bytes, %+v", len(stdout), end)
	}
	for _, head := range []string{"\x07\x00\x00\x00", "\x00\x00\x00\x00", "\x01\x00\x01\x00", "HTTP"} {
		b.runs(func(c *fakeContainer) {
			c.out(1, "fine")
			c.conn.Write([]byte(head + "\x00\x00\x00\x01x"))
			<-c.gone
		})
		if stdout, _, end := b.run("plain", nil).frames(); stdout != "fine" || end.Reason != wire.EndLost {
			t.Errorf("%q: %q, %+v", head, stdout, end)
		}
	}
}

// TestContainerExits by itself: with its code, and the next one starts.
func TestContainerExits(t *testing.T) {
	b := start(t, goodConfig)
	b.runs(func(c *fakeContainer) { c.code.Store(3) })
	for range 3 {
		if _, _, end := b.run("plain", nil).frames(); end != (wire.End{Reason: wire.EndExited, ExitCode: 3}) {
			t.Errorf("%+v", end)
		}
	}
}

func FuzzDemux(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x00\x00\x00\x02hi\x02\x00\x00\x00\x00\x00\x00\x01!"))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xffhi"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var framed bytes.Buffer
		err := demux(&framed, bytes.NewReader(stream))
		var want, got [3]string
		for rest := stream; len(rest) >= 8 && (rest[0] == 1 || rest[0] == 2) && rest[1]|rest[2]|rest[3] == 0; {
			n := int(min(uint64(binary.BigEndian.Uint32(rest[4:])), uint64(len(rest)-8)))
			want[rest[0]] += string(rest[8 : 8+n])
			rest = rest[8+n:]
		}
		buffer := make([]byte, wire.MaxFrame)
		for {
			kind, payload, err := wire.ReadFrame(&framed, buffer)
			if err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			got[kind] += string(payload)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%q became %q, want %q (%v)", stream, got, want, err)
		}
	})
}
