package doctor

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(code) })
}

func serve(t *testing.T, h http.Handler) string {
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv.URL
}

// other is a well-formed token that nobody knows.
func other(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(strings.Repeat("x", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// modify puts a proxy in front that changes each response.
func modify(next http.Handler, change func(*http.Response)) http.Handler {
	srv := httptest.NewServer(next)
	u, _ := url.Parse(srv.URL)
	p := httputil.NewSingleHostReverseProxy(u)
	p.FlushInterval = -1
	p.ModifyResponse = func(r *http.Response) error { change(r); return nil }
	return p
}

// stopped is the edge in the place of a server whose answer it does not pass on.
func stopped() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.WriteHeader(http.StatusBadGateway)
		fmt.Fprintln(w, "the answer of the backend cannot be passed on: see the log")
	})
}

func without(method string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method {
			w.WriteHeader(401)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func wellKnown(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			fmt.Fprint(w, `{"resource":"x"}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// buffering holds an event stream back until it ends.
func buffering(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "GET" {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
		defer cancel()
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r.WithContext(ctx))
		w.Write(rec.Body.Bytes())
	})
}

func endpoint(data string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", data)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
}

// mixed is honest on the first stream only.
func mixed(next http.Handler, to string) http.Handler {
	var opened atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "GET" && strings.HasSuffix(r.URL.Path, "/sse") {
			if opened.Add(1) > 1 {
				endpoint(to+"/x").ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// cut ends each stream after three seconds, by when a busy machine has opened it.
func cut(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// hangUp is Docker's proxy before a port on which nobody listens.
type hangUp struct{}

func (hangUp) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		c.Close()
	}
}

func api(version, status string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/api/version":
			fmt.Fprintf(w, `{"Version":%q}`, version)
		default:
			fmt.Fprintf(w, `[{"name":"mcp-sandbox@file","status":%q,"error":["unknown plugin"]}]`, status)
		}
	})
}
