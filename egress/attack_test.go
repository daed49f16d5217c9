package main_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"
)

func proxyURL(address string) *url.URL { return &url.URL{Scheme: "http", Host: address} }

// The way that everything below closes: what is allowed arrives.
func TestAllowedHostIsReached(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	world.dns.Set("six.example", "2606:2800:220::10")
	world.dns.Set("a.b.wild.example", "93.184.215.11")
	e := start(t, "ok.example,six.example:8443,*.wild.example,http://ok.example")
	c := e.command(t, "c1", "*")
	for url, want := range map[string]string{
		"https://ok.example/x":       "200 93.184.215.10 GET ok.example /x",
		"https://OK.example/x":       "200 93.184.215.10 GET OK.example /x",
		"https://six.example:8443/":  "200 2606:2800:220::10 GET six.example:8443 /",
		"https://a.b.wild.example/?": "200 93.184.215.11 GET a.b.wild.example /?",
		"http://ok.example/p?q=1":    "200 93.184.215.10 GET ok.example /p?q=1",
	} {
		if got, err := c.get(url); err != nil || !strings.HasPrefix(got, want+" ") {
			t.Errorf("%s: %q, %v", url, got, err)
		}
	}
}

// Names are decided before any DNS query: the authoritative server, which
// would answer each of these, hears of none. The twin is the same server
// hearing of the allowed name.
func TestNamesAreDecidedBeforeDNS(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	world.dns.Set("evil.example", "93.184.215.11")
	e := start(t, "ok.example,http://ok.example,ceiling.example,*.wild.example")
	c := e.command(t, "c1", "ok.example", "http://ok.example", "granted.example", "*.wild.example")
	world.dns.Queries()
	for target, want := range map[string]string{
		"evil.example:443": "not_granted", "secret-data.evil.example:443": "not_granted", "ok.example:22": "not_granted", "xok.example:443": "not_granted",
		"a.ok.example:443": "not_granted", "ok.example.evil.example:443": "not_granted", "wild.example:443": "not_granted", "ceiling.example:443": "not_granted",
		"granted.example:443": "above_ceiling", "ok.example.:443": "bad_name", "ok.example\x00.evil.example:443": "bad_request", "ok.example%00.evil.example:443": "bad_name",
		"ok.example%2eevil.example:443": "bad_name", "ök.example:443": "bad_name", "ok。example:443": "bad_name", "10.0.0.5:443": "bad_name", "169.254.169.254:80": "bad_name",
		"2852039166:443": "bad_name", "0xa9fea9fe:443": "bad_name", "0251.0376.0251.0376:443": "bad_name", "169.254.43518:443": "bad_name", "[::1]:443": "bad_name",
		"[::ffff:10.0.0.5]:443": "bad_name", "[fd7a:115c:a1e0::5]:443": "bad_name", "user@ok.example:443": "bad_name", "ok.example:443@evil.example:443": "bad_name",
		"ok.example:0443": "bad_name", "ok.example:+443": "bad_name", "": "bad_name", "ok.example:443/": "bad_name", "localhost:443": "not_granted",
		strings.Repeat("a", 64) + ".wild.example:443": "bad_name", strings.Repeat("a.", 130) + "wild.example:443": "bad_name", "_x.wild.example:443": "bad_name",
	} {
		got := c.raw("CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n")
		if r := c.refusal(); r.Verdict != want || strings.HasPrefix(got, "HTTP/1.1 200") {
			t.Errorf("%q: verdict %q, want %q; answer %q", target, r.Verdict, want, got)
		} else if want == "not_granted" && !strings.Contains(got, `add the rule "`) && !strings.Contains(got, "localhost:443 is the proxy's own machine, which no rule opens") {
			t.Errorf("%q: the answer names neither the rule nor why there is none: %q", target, got)
		}
	}
	if q := world.dns.Queries(); len(q) != 0 {
		t.Errorf("DNS queries for what was refused: %q", q)
	}
	if got, err := c.get("https://ok.example/"); err != nil || len(world.dns.Queries()) == 0 {
		t.Errorf("the twin: %q, %v", got, err)
	}
	quiet(t)
}

// A name whose addresses are not all public is refused, however they are
// given. The twins: each address has a host that answers, and the same name
// with a public address passes.
func TestAddressesMustBePublic(t *testing.T) {
	e := start(t, "host.example,*.turn.example,private:home.example:443")
	c := e.command(t, "c1", "*")
	answers := [][]string{{"93.184.215.10", "10.0.0.5"}, {"93.184.215.10", "fd00::5"}, {"CNAME inner.example"}, {"CNAME a.example"},
		{"127.0.0.1"}, {"::1"}, {"0.0.0.0"}, {"::ffff:10.0.0.5"}, {"::ffff:93.184.215.10"}, {"::"}, {"255.255.255.255"}, {"224.0.0.1"}, {"ff02::1"}, {"fe80::1"}}
	for _, a := range guarded {
		twin, err := net.DialTimeout("tcp", net.JoinHostPort(a, "443"), 5*time.Second)
		if err != nil {
			t.Fatalf("the twin of %s: %v", a, err)
		}
		twin.Close()
		answers = append(answers, []string{a})
	}
	for { // the twins have been accepted, and are forgotten
		if missing := len(guarded) - heardAll("443"); missing <= 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	forget()
	world.dns.Set("inner.example", "192.168.1.1")
	world.dns.Set("a.example", "CNAME b.example")
	world.dns.Set("b.example", "169.254.169.254")
	for _, answer := range answers {
		world.dns.Set("host.example", answer...)
		conn, status := c.connect("host.example:443")
		conn.Close()
		if r := c.refusal(); r.Verdict != "not_public" || !strings.Contains(status, "not public") {
			t.Errorf("%v: verdict %q, status %q", answer, r.Verdict, status)
		}
	}
	quiet(t)
	world.dns.Set("host.example", "93.184.215.10")
	if got, err := c.get("https://host.example/"); err != nil {
		t.Errorf("the twin: %q, %v", got, err)
	}
}

func heardAll(port string) (n int) {
	for _, a := range guarded {
		n += min(1, len(world.hosts[net.JoinHostPort(a, port)].Received(false)))
	}
	return n
}

func forget() {
	for _, l := range world.hosts {
		l.Received(true)
	}
}

// A name that changes its mind is asked once per connection: what was looked
// at is what is dialled.
func TestRebinding(t *testing.T) {
	forget()
	e := start(t, "turn.example")
	c := e.command(t, "c1", "*")
	world.dns.Set("turn.example", "93.184.215.10", "then", "10.0.0.5")
	world.dns.Queries()
	if got, err := c.get("https://turn.example/"); err != nil || !strings.HasPrefix(got, "200 93.184.215.10") {
		t.Errorf("first: %q, %v", got, err)
	}
	if q := world.dns.Queries(); len(q) > 2 { // A and AAAA
		t.Errorf("%d queries for one connection: %q", len(q), q)
	}
	if got, err := c.get("https://turn.example/"); err == nil {
		t.Errorf("second: %q", got)
	}
	if r := c.refusal(); r.Verdict != "not_public" {
		t.Errorf("second: %+v", r)
	}
	quiet(t)
}

// A private rule opens the home network for one name and port, never the
// machine itself or its cloud.
func TestPrivateRule(t *testing.T) {
	forget()
	e := start(t, "private:home.example:443,private:gitea:8443")
	c := e.command(t, "c1", "home.example", "gitea:8443", "*")
	for _, a := range []string{"10.0.0.5", "172.17.0.1", "192.168.1.1", "100.100.100.100", "fd00::5", "fd7a:115c:a1e0::5", "93.184.215.10"} {
		world.dns.Set("home.example", a)
		if got, err := c.get("https://home.example/"); err != nil || !strings.HasPrefix(got, "200 "+a+" ") {
			t.Errorf("%s: %q, %v", a, got, err)
		}
	}
	forget()
	for _, a := range []string{"127.0.0.1", "::1", "169.254.169.254", "168.63.129.16", "64:ff9b::5db8:d70a", "2002:5db8:d70a::1", "::ffff:10.0.0.5", "0.0.0.0"} {
		world.dns.Set("home.example", a)
		if got, err := c.get("https://home.example/"); err == nil {
			t.Errorf("%s: %q", a, got)
		}
		if r := c.refusal(); r.Verdict != "not_public" {
			t.Errorf("%s: %+v", a, r)
		}
	}
	world.dns.Set("home.example", "10.0.0.5")
	for _, target := range []string{"home.example:8443", "x.home.example:443"} {
		conn, _ := c.connect(target)
		conn.Close()
		if r := c.refusal(); r.Verdict != "above_ceiling" {
			t.Errorf("%s: %+v", target, r)
		}
	}
	quiet(t)
}

// hello is a ClientHello for name, as Go's client sends it.
func hello(t *testing.T, name string) []byte {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	go tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
	head := make([]byte, 5)
	if _, err := io.ReadFull(b, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(b, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// split puts a record's payload into records of n bytes.
func split(record []byte, n int) (out []byte) {
	for body := record[5:]; len(body) > 0; {
		k := min(n, len(body))
		out = append(out, record[0], record[1], record[2], byte(k>>8), byte(k))
		out = append(out, body[:k]...)
		body = body[k:]
	}
	return out
}

// After CONNECT only a ClientHello with the connected name passes; whatever
// else is sent, the other side gets not one byte of it.
func TestServerNameMustMatch(t *testing.T) {
	forget()
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example,front.example")
	c := e.command(t, "c1", "*")
	good, other, none := hello(t, "ok.example"), hello(t, "front.example"), hello(t, "")
	alert := []byte{21, 3, 3, 0, 2, 1, 0}
	for name, first := range map[string]struct {
		bytes []byte
		want  string
	}{
		"another name": {other, "sni_mismatch"}, "another name, split": {split(other, 1), "sni_mismatch"}, "no name": {none, "sni_mismatch"},
		"an address": {hello(t, "93.184.215.10"), "sni_mismatch"}, "clear text": {[]byte("GET / HTTP/1.1\r\nHost: ok.example\r\n\r\n"), "no_tls"},
		"ssh": {[]byte("SSH-2.0-x\r\n"), "no_tls"}, "a warning before": {append(alert, good...), "no_tls"}, "data before": {append([]byte{23, 3, 3, 0, 1, 0}, good...), "no_tls"},
		"http/2": {[]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), "no_tls"}, "empty records": {[]byte(strings.Repeat("\x16\x03\x01\x00\x00", 100)), "no_tls"},
		"a proxy in it": {[]byte("CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n"), "no_tls"}, "sslv2": {append([]byte{0x80, 0x2e, 1, 3, 1}, good...), "no_tls"},
		"without end": {[]byte("\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + strings.Repeat("x", 70000)), "no_tls"}, "a name cut short": {truncated(good), "no_tls"},
		"two names": {twoNames(t, good), "no_tls"}, "the extension twice": {twice(t, good), "no_tls"},
	} {
		conn, status := c.connect("ok.example:443")
		if !strings.Contains(status, "200") {
			t.Fatalf("%s: %s", name, status)
		}
		go conn.Write(first.bytes)
		if name == "a name cut short" {
			time.AfterFunc(50*time.Millisecond, func() { conn.(*net.TCPConn).CloseWrite() })
		}
		if got, _ := io.ReadAll(conn); len(got) != 0 {
			t.Errorf("%s: got %q back", name, got)
		}
		conn.Close()
		if r := c.refusal(); r.Verdict != first.want {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for _, got := range world.heard("93.184.215.10:443") {
		if len(got) != 0 {
			t.Errorf("the host received %q", got)
		}
	}
	for name, first := range map[string][]byte{"whole": good, "split": split(good, 7), "split to bytes": split(good, 1), "with GREASE": grease(t, good)} {
		conn, _ := c.connect("ok.example:443")
		conn.Write(first)
		one := make([]byte, 1)
		if _, err := io.ReadFull(conn, one); err != nil || one[0] != 22 {
			t.Errorf("the twin, %s: %v, %v", name, one, err)
		}
		conn.Close()
	}
}

func truncated(record []byte) []byte { return record[:len(record)-20] }

// edit adds an extension to a ClientHello, and corrects the lengths around it.
func edit(t *testing.T, record, extension []byte) []byte {
	t.Helper()
	b := append([]byte{}, record...)
	at := 5 + 4 + 2 + 32
	at += 1 + int(b[at])                   // session id
	at += 2 + int(b[at])<<8 + int(b[at+1]) // cipher suites
	at += 1 + int(b[at])                   // compression
	n := int(b[at])<<8 + int(b[at+1])      // extensions
	b = append(b[:at+2], append(extension, b[at+2:]...)...)
	put := func(at, n, width int) {
		for i := range width {
			b[at+i] = byte(n >> (8 * (width - 1 - i)))
		}
	}
	put(at, n+len(extension), 2)
	put(6, len(b)-9, 3)
	put(3, len(b)-5, 2)
	return b
}

func nameExtension(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(append(list, 0, byte(len(n)>>8), byte(len(n))), n...)
	}
	out := []byte{0, 0, byte((len(list) + 2) >> 8), byte(len(list) + 2), byte(len(list) >> 8), byte(len(list))}
	return append(out, list...)
}

func twice(t *testing.T, good []byte) []byte { return edit(t, good, nameExtension("ok.example")) }

func twoNames(t *testing.T, _ []byte) []byte {
	return edit(t, hello(t, ""), nameExtension("ok.example", "front.example"))
}

// grease adds an extension of RFC 8701.
func grease(t *testing.T, good []byte) []byte { return edit(t, good, []byte{0x7a, 0x7a, 0, 1, 0}) }
