package main

import (
	"context"
	"net/http"
	"time"
)

type connKey struct{}

// throughEdge sends everything but the health check through the edge.
func throughEdge(edge, backend http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/healthz" {
			backend.ServeHTTP(w, r)
			return
		}
		edge.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), connKey{}, w)))
	})
}

// behind gives the sandbox, behind the edge, what it has behind Traefik: a
// writer that knows deadlines and can be flushed. The edge's own writers hide
// both, since Traefik would never see them.
func behind(backend http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(connKey{}).(http.ResponseWriter)
		backend.ServeHTTP(writer{w, http.NewResponseController(conn)}, r)
	})
}

type writer struct {
	http.ResponseWriter
	conn *http.ResponseController
}

// FlushError, SetReadDeadline and SetWriteDeadline are what
// http.ResponseController looks for.
func (w writer) FlushError() error                  { return w.conn.Flush() }
func (w writer) SetReadDeadline(t time.Time) error  { return w.conn.SetReadDeadline(t) }
func (w writer) SetWriteDeadline(t time.Time) error { return w.conn.SetWriteDeadline(t) }
