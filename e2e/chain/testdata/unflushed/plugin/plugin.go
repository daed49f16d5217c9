// Package plugin wraps the response writer in the way that looks right: with a
// Flush method. An interpreted writer's Flush is never called.
package plugin

import (
	"context"
	"net/http"
)

// Config has one setting, so that the middleware can be written down.
type Config struct {
	Wrap string
}

// CreateConfig returns an empty configuration.
func CreateConfig() *Config { return &Config{} }

type writer struct {
	rw http.ResponseWriter
}

func (w *writer) Header() http.Header         { return w.rw.Header() }
func (w *writer) WriteHeader(code int)        { w.rw.WriteHeader(code) }
func (w *writer) Write(p []byte) (int, error) { return w.rw.Write(p) }

func (w *writer) Flush() {
	if f, ok := w.rw.(http.Flusher); ok {
		f.Flush()
	}
}

type middleware struct {
	next http.Handler
}

func (m *middleware) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	m.next.ServeHTTP(&writer{rw}, r)
}

// New returns a middleware that passes everything on.
func New(_ context.Context, next http.Handler, _ *Config, _ string) (http.Handler, error) {
	return &middleware{next}, nil
}
