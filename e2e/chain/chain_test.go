// Package chain_test walks the whole way: a client, the real Traefik, the plugin
// that it interprets, and sandboxd, with the committed traefik-dynamic.yml.
package chain_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// withBothProxies runs a test with Traefik's two ways to talk to a backend.
func withBothProxies(t *testing.T, test func(t *testing.T, fast bool)) {
	for _, fast := range []bool{false, true} {
		name := "httputil"
		if fast {
			name = "fastProxy"
		}
		t.Run(name, func(t *testing.T) { test(t, fast) })
	}
}

// request is one HTTP request of a table.
type request struct {
	method, url string
	token       string
	header      http.Header
	body        string
}

// answer is what came back: the status, the header and the first 64 KiB.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %q", a.status, a.body) }

// do sends the request and reads the answer. An SSE stream is cut after its
// first event.
func do(t *testing.T, r request) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.method, r.url, strings.NewReader(r.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if host := r.header.Get("Host"); host != "" {
		req.Host = host
	}
	client := rig.HTTPClient(r.token)
	client.Timeout = rig.Deadline
	resp, err := client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.url, err)
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		a.body, err = event(bufio.NewReader(resp.Body))
	} else {
		var data []byte
		data, err = io.ReadAll(io.LimitReader(resp.Body, 64<<10))
		a.body = string(data)
	}
	if err != nil {
		t.Fatalf("%s %s: reading the answer: %v", r.method, r.url, err)
	}
	return a
}

// event reads one event, up to its blank line.
func event(r *bufio.Reader) (string, error) {
	var lines strings.Builder
	for {
		line, err := r.ReadString('\n')
		lines.WriteString(line)
		if err != nil || strings.TrimRight(line, "\r\n") == "" {
			return lines.String(), err
		}
	}
}

// within fails a step that does not end in time. The limit is no measure of speed:
// what is buffered does not come at all.
func within[T any](limit time.Duration, what string, step func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() { v, err := step(); done <- result{v, err} }()
	select {
	case r := <-done:
		if r.err != nil {
			return r.value, fmt.Errorf("%s: %w", what, r.err)
		}
		return r.value, nil
	case <-time.After(limit):
		var none T
		return none, fmt.Errorf("%s: nothing came within %s", what, limit)
	}
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"curl","version":"1"}}}`

// post is a correct POST of a JSON-RPC message.
func post(url, token, body string) request {
	return request{"POST", url, token, http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
	}, body}
}
