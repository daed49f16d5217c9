package upstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/upstream"
)

const request = `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`

func remote(t *testing.T, h http.HandlerFunc) upstream.Remote {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return upstream.Remote{URL: srv.URL + "/mcp?key=of-the-owner", Header: map[string]string{"Authorization": "Bearer of-the-owner"}}
}

// What a remote server does wrong is an error message, which names neither
// the address nor a header: both may hold a secret.
func TestRemoteFailures(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect was followed with %v", r.Header)
	}))
	t.Cleanup(elsewhere.Close)
	for want, h := range map[string]http.HandlerFunc{
		"check the entry's headers": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		"check the entry's url":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) },
		"server redirects":          func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, 307) },
		"no JSON-RPC answer":        func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"ended before the answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, ": nothing\n\n")
		},
		"bad session": func(w http.ResponseWriter, _ *http.Request) { // which did not read as far as the id
			w.WriteHeader(400)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"bad session"}}`)
		},
	} {
		conn, err := upstream.HTTP(remote(t, h))(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Send(upstream.Outgoing{Raw: []byte(request)}); err != nil {
			t.Fatal(err)
		}
		raw, err := conn.Receive()
		if err != nil || !strings.Contains(string(raw), want) || !strings.Contains(string(raw), `"id":1,"error"`) || strings.Contains(string(raw), "of-the-owner") {
			t.Errorf("want %q, got %s %v", want, raw, err)
		}
		conn.Close()
	}
}

// An endpoint on another origin would get the entry's headers.
func TestForeignEndpointIsRefused(t *testing.T) {
	for _, endpoint := range []string{"https://evil.example/m", "//evil.example/m", "http:evil", "http://u@127.0.0.1/m", "/m"} {
		r := remote(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		conn, err := upstream.SSE(r)(ctx)
		cancel()
		if own := endpoint == "/m"; own != (err == nil) || !own && !strings.Contains(err.Error(), "another origin") {
			t.Errorf("%s: %v", endpoint, err)
		}
		if conn != nil {
			conn.Close()
		}
	}
}

// A server that answers and ends its stream at once has answered: what it said is
// received before the end, whichever the hub comes to first.
func TestAnswerBeforeTheEndIsReceived(t *testing.T) {
	for range 20 {
		asked := make(chan bool, 100)
		c := dial(t, upstream.SSE(remote(t, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				w.WriteHeader(202)
				asked <- true
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: endpoint\ndata: /m\n\n")
			w.(http.Flusher).Flush()
			<-asked
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n")
		})))
		c.Send(upstream.Outgoing{Raw: []byte(request)})
		for c.Send(upstream.Outgoing{Raw: []byte(`{"jsonrpc":"2.0","method":"notifications/x"}`)}) == nil { // until the end is known
			time.Sleep(time.Millisecond)
		}
		raw, err := c.Receive()
		if err != nil || !strings.Contains(string(raw), `"result"`) {
			t.Fatalf("%s, %v", raw, err)
		}
		for err == nil { // and then the end
			_, err = c.Receive()
		}
	}
}

// A server that never ends a canceled request does not hold a stream indefinitely.
func TestCanceledRequestIsClosed(t *testing.T) {
	defer upstream.HastenCancel(10 * time.Millisecond)()
	asked, left := make(chan bool, 1), make(chan bool, 1)
	conn, err := upstream.HTTP(remote(t, func(w http.ResponseWriter, r *http.Request) {
		if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "cancelled") {
			w.WriteHeader(202)
			return
		}
		asked <- true
		<-r.Context().Done()
		left <- true
	}))(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Send(upstream.Outgoing{Raw: []byte(request)})
	<-asked
	conn.Send(upstream.Outgoing{Raw: []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)})
	select {
	case <-left:
	case <-time.After(time.Minute):
		t.Error("the request still runs")
	}
}
