package service_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// client is an MCP client that sees the bytes of each message.
type client interface {
	// call sends a request and returns the raw answer.
	call(id, method, params string) string
	// send posts a message without waiting for anything.
	send(raw string)
	// next returns what came unasked.
	next() string
	close()
}

// dial opens a session over "mcp" or "sse", or uses the stateless era.
func (b *bench) dial(transport, name string, h http.Header) client {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	c := &session{b: b, ctx: ctx, stop: cancel, name: name, header: maps.Clone(h), answers: map[string]chan string{}, unasked: make(chan string, 1000)}
	if c.header == nil {
		c.header = http.Header{}
	}
	b.t.Cleanup(cancel)
	if c.path = "/servers/" + name + "/mcp"; name == "" {
		c.path = "/hub/mcp"
	}
	switch transport {
	case "sse":
		c.openSSE()
	case "stateless":
		c.modern = true
		c.header.Set("Mcp-Protocol-Version", "2026-07-28")
		return c
	}
	c.call("0", "initialize", `{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"test","version":"1"}}`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if transport == "mcp" {
		c.listen()
	}
	return c
}

type session struct {
	b       *bench
	ctx     context.Context
	stop    context.CancelFunc
	name    string
	path    string
	modern  bool
	header  http.Header
	mu      sync.Mutex
	answers map[string]chan string
	unasked chan string
}

func (c *session) request(method, path, body string) *http.Request {
	req, err := http.NewRequestWithContext(c.ctx, method, c.b.URL+path, strings.NewReader(body))
	if err != nil {
		c.b.t.Fatal(err)
	}
	c.mu.Lock()
	req.Header = c.header.Clone()
	c.mu.Unlock()
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Content-Type", "application/json")
	return req
}

func (c *session) openSSE() {
	resp, err := http.DefaultClient.Do(c.request("GET", "/servers/"+c.name+"/sse", ""))
	if err != nil || resp.StatusCode != 200 {
		c.b.t.Fatalf("opening the stream: %v %v", err, resp)
	}
	endpoint := make(chan string, 1)
	go c.read(resp.Body, endpoint)
	c.path = strings.TrimPrefix(<-endpoint, "/mcp-hub")
}

func (c *session) listen() {
	resp, err := http.DefaultClient.Do(c.request("GET", c.path, ""))
	if err != nil || resp.StatusCode != 200 {
		c.b.t.Fatalf("listening: %v %v", err, resp)
	}
	go c.read(resp.Body, nil)
}

// read takes the events of a stream apart.
func (c *session) read(body io.ReadCloser, endpoint chan<- string) {
	defer body.Close()
	in := bufio.NewReader(body)
	name := ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		if event, ok := strings.CutPrefix(line, "event: "); ok {
			name = strings.TrimSpace(event)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			if data = strings.TrimSuffix(data, "\n"); name == "endpoint" {
				endpoint <- data
			} else {
				c.take(data)
			}
		}
	}
}

func (c *session) take(raw string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var m message
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		c.b.t.Errorf("not JSON: %.200s", raw)
	}
	if answer := c.answers[string(m.ID)]; answer != nil && m.Method == "" {
		delete(c.answers, string(m.ID))
		answer <- raw
		return
	}
	c.unasked <- raw
}

func (c *session) call(id, method, params string) string {
	c.b.t.Helper()
	answer := make(chan string, 1)
	c.mu.Lock()
	c.answers[id] = answer
	c.mu.Unlock()
	if c.modern {
		params = `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},` + strings.TrimPrefix(params, "{")
		params = strings.Replace(params, ",}", "}", 1)
	}
	go c.post(method, nameOf(params), `{"jsonrpc":"2.0","id":`+id+`,"method":`+strconv.Quote(method)+`,"params":`+params+`}`)
	select {
	case raw := <-answer:
		return raw
	case <-c.ctx.Done():
		return ""
	case <-time.After(patience):
		c.b.t.Errorf("no answer to %s", method)
		return ""
	}
}

func nameOf(params string) string {
	_, rest, _ := strings.Cut(params, `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}

func (c *session) send(raw string) { c.post("", "", raw) }

func (c *session) post(method, name, body string) {
	req := c.request("POST", c.path, body)
	if c.modern {
		req.Header.Set("Mcp-Method", method)
		if method == "tools/call" {
			req.Header.Set("Mcp-Name", name)
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.mu.Lock()
		c.header.Set("Mcp-Session-Id", id)
		c.mu.Unlock()
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		c.read(resp.Body, nil)
		return
	}
	defer resp.Body.Close()
	if raw, err := io.ReadAll(resp.Body); err == nil && len(raw) > 0 { // not half of one, cut off by the test's end
		c.take(string(raw))
	}
}

func (c *session) next() string {
	c.b.t.Helper()
	select {
	case raw := <-c.unasked:
		return raw
	case <-time.After(patience):
		c.b.t.Fatal("nothing came")
		return ""
	}
}

// close ends the session as each transport does.
func (c *session) close() {
	c.mu.Lock()
	id := c.header.Get("Mcp-Session-Id")
	c.mu.Unlock()
	if id != "" {
		if resp, err := http.DefaultClient.Do(c.request("DELETE", c.path, "")); err == nil {
			resp.Body.Close()
		}
	}
	c.stop()
}
