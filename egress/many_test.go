package main_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// Many connections of many commands are open at once, each carries its own answer,
// and somebody else's next one is served all the same. With SALLYPORT_SOAK they are
// 1,000, and a principal's bound is met on top.
func TestManyConnectionsAtOnce(t *testing.T) {
	const each = 100 // of a command; it may have 128
	principals, commands := 2, 1
	if os.Getenv("SALLYPORT_SOAK") != "" {
		commands = 5 // of each principal, which may have 512 connections
	}
	publish("many.example", "93.184.215.10", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "for ", r.URL.Path) }))
	e := start(t, "many.example")
	var mu sync.Mutex
	var held []*tls.Conn
	var all sync.WaitGroup
	opening := make(chan struct{}, 64) // at once: a ClientHello may take 10 s, also on a busy machine
	for n := range principals * commands {
		c := e.commandOf(t, egresswire.Command{Principal: fmt.Sprint("token:p", n%principals), ID: fmt.Sprint("c", n), Rules: []string{"*"}})
		for range each {
			opening <- struct{}{}
			all.Go(func() {
				defer func() { <-opening }()
				raw, status := c.connect("many.example:443")
				conn := tls.Client(raw, &tls.Config{RootCAs: world.ca.Pool(), ServerName: "many.example"})
				if err := conn.Handshake(); err != nil || !strings.Contains(status, "200") {
					t.Errorf("%q, %v", status, err)
				}
				mu.Lock()
				defer mu.Unlock()
				held = append(held, conn)
			})
		}
	}
	all.Wait()
	if got, err := e.command(t, "other", "*").get("https://many.example/other"); err != nil || got != "200 for /other" {
		t.Errorf("another principal: %q, %v", got, err)
	}
	if commands == 5 {
		e.principalIsFull(t, 512-each*commands)
	}
	for i, conn := range held {
		if got, err := ask(conn, fmt.Sprint("/", i)); err != nil || got != fmt.Sprint("for /", i) {
			t.Errorf("connection %d: %q, %v", i, got, err)
		}
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.cmd.Process.Pid))
	_, resident, _ := strings.Cut(string(status), "VmRSS:")
	resident, _, _ = strings.Cut(resident, "\n")
	t.Logf("%d connections at once; egress holds %s", len(held), strings.TrimSpace(resident))
	for _, conn := range held {
		conn.Close()
	}
}

// principalIsFull opens what is left to the first principal and one more.
func (e *egress) principalIsFull(t *testing.T, left int) {
	t.Helper()
	c := e.commandOf(t, egresswire.Command{Principal: "token:p0", ID: "last", Rules: []string{"*"}})
	for range left {
		conn, status := c.connect("many.example:443")
		defer conn.Close()
		if !strings.Contains(status, "200") {
			t.Fatal(status)
		}
	}
	conn, status := c.connect("many.example:443")
	conn.Close()
	if strings.Contains(status, "200") || !strings.Contains(c.refusal().Say, "512 connections open") {
		t.Errorf("one more than a principal may have: %q", status)
	}
}

// ask sends one request over an open connection.
func ask(conn net.Conn, path string) (string, error) {
	conn.SetDeadline(time.Now().Add(20 * time.Second)) // anew: it was held for as long as all took to open
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: many.example\r\n\r\n", path); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// Whoever fills the socket with connections that prove nothing does not keep a
// command out: it waits until they are closed. The twin: such a place is not served.
func TestBusySocketIsWaitedFor(t *testing.T) {
	world.dns.Set("ok.example", "93.184.215.10")
	e := start(t, "ok.example")
	for range 256 {
		conn, err := net.Dial("unix", e.client.Socket)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	twin, err := net.Dial("unix", e.client.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Close()
	if n, err := twin.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the next one was not closed at once: %d, %v", n, err)
	}
	if got, err := e.command(t, "c1", "*").get("https://ok.example/"); err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
