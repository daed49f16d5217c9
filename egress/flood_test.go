package main_test

import (
	"context"
	"net"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/egress/proxy"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// serveHere serves with limits that a process does not have.
func serveHere(t *testing.T, allow string, limits proxy.Limits) *egress {
	t.Helper()
	dir := t.TempDir()
	ceiling, err := egressrule.ParseList([]string{allow}, egressrule.ParseCeiling)
	if err != nil {
		t.Fatal(err)
	}
	k, err := keysocket.ParseKey([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	e := &egress{t: t, audit: filepath.Join(dir, "audit", "audit.jsonl"), client: &egresswire.Client{Socket: dir + "/s", Key: k}}
	record, err := audit.Open(audit.Options{File: e.audit})
	if err != nil {
		t.Fatal(err)
	}
	l, err := keysocket.Listen(e.client.Socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- (&proxy.Server{Ceiling: ceiling, Audit: record, Limits: limits}).Run(ctx, l, k.Sum()) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		record.Close()
	})
	return e
}

// Whoever floods egress with refusals, by however many commands, does not push the
// records of others out of the audit: beyond a bound they are only counted, and none is
// missing from the count. Another principal is served and recorded throughout.
func TestRefusalFloods(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	limits := proxy.DefaultLimits
	limits.Refusals = 20
	e := serveHere(t, "ok.example", limits)
	const commands, each = 5, 10
	for n := range commands {
		c := e.commandOf(t, egresswire.Command{Principal: "token:flood", ID: strconv.Itoa(n), Rules: []string{"*"}})
		for i := range each {
			c.raw("CONNECT data" + strconv.Itoa(i) + ".evil.example:443 HTTP/1.1\r\n\r\n")
			if r := c.refusal(); r.Verdict != "above_ceiling" {
				t.Errorf("the command is told %+v", r)
			}
		}
		c.way.Close()
		other := e.commandOf(t, egresswire.Command{Principal: "token:other", ID: "o" + strconv.Itoa(n), Rules: []string{"*"}})
		if got, err := other.get("https://ok.example/"); err != nil {
			t.Errorf("another principal: %q, %v", got, err)
		}
		other.raw("CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
		other.refusal()
		other.way.Close()
	}
	var flood, counted, others int
	awaitThat(t, "all are recorded or counted", func() bool {
		flood, counted, others = 0, 0, 0
		for _, r := range e.records() {
			more, isCount := detail(r, "more")
			switch {
			case r["principal"] == "token:flood" && isCount:
				n, _ := strconv.Atoi(more)
				counted += n
			case r["principal"] == "token:flood":
				flood++
			case r["kind"] == "refused":
				others++
			}
		}
		return flood+counted == commands*each
	})
	if flood != limits.Refusals || others != commands {
		t.Errorf("%d records of the flood, %d counted, %d of the other principal", flood, counted, others)
	}
}

// What is allowed has two records each, so floods of it end in refusals, which are bounded
// as others are: whoever has one host, and speaks no TLS to it, pushes no record out
// either. Another principal is served throughout.
func TestAllowedFloods(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	limits := proxy.DefaultLimits
	limits.Hour, limits.Refusals = 10, 5
	e := serveHere(t, "ok.example", limits)
	const commands, each = 4, 10
	verdicts := map[string]int{}
	for n := range commands {
		c := e.commandOf(t, egresswire.Command{Principal: "token:flood", ID: strconv.Itoa(n), Rules: []string{"*"}})
		for range each {
			c.raw("CONNECT ok.example:443 HTTP/1.1\r\n\r\nno TLS at all, but bytes")
			verdicts[c.refusal().Verdict]++
		}
		c.way.Close()
		other := e.commandOf(t, egresswire.Command{Principal: "token:other" + strconv.Itoa(n), ID: "o", Rules: []string{"*"}})
		if got, err := other.get("https://ok.example/"); err != nil {
			t.Errorf("another principal: %q, %v", got, err)
		}
		other.way.Close()
	}
	if verdicts["no_tls"] != limits.Hour || verdicts["too_many"] != commands*each-limits.Hour {
		t.Errorf("the commands are told %v", verdicts)
	}
	var begun, refused, counted int
	awaitThat(t, "all are recorded or counted", func() bool {
		begun, refused, counted = 0, 0, 0
		for _, r := range e.records() {
			more, isCount := detail(r, "more")
			n, _ := strconv.Atoi(more)
			switch {
			case r["principal"] != "token:flood":
			case isCount:
				counted += n
			case r["kind"] == "begin":
				begun++
			case r["kind"] == "refused":
				refused++
			}
		}
		return begun+refused+counted == commands*each
	})
	if begun != limits.Hour || refused != limits.Refusals {
		t.Errorf("%d begun, %d refused, %d counted", begun, refused, counted)
	}
}

// A command that waits for an egress that hangs ends when it is ended.
func TestEgressHangs(t *testing.T) {
	e := serveHung(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	way := e.Open(l, egresswire.Command{Principal: "token:a", ID: "c1"}, func(egresswire.Refusal) {})
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	time.Sleep(100 * time.Millisecond) // until it waits for its ticket, or a little before
	begin := time.Now()
	way.Close()
	if took := time.Since(begin); took > 4*time.Second { // without being told it waits for five
		t.Errorf("the end of the command took %v", took)
	}
}

// serveHung accepts the key and says nothing more.
func serveHung(t *testing.T) *egresswire.Client {
	t.Helper()
	k, err := keysocket.ParseKey([]byte(key))
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := keysocket.Listen(socket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	server := keysocket.Server{Sum: k.Sum(), Serve: func(ctx context.Context, c *net.UnixConn) { <-ctx.Done() }}
	go func() { ended <- server.Run(ctx, l) }()
	t.Cleanup(func() { cancel(); <-ended })
	return &egresswire.Client{Socket: socket, Key: k}
}
