// Package plugin is the edge: a Traefik middleware that decides who may call
// what before a request reaches an MCP server.
//
// Traefik interprets it with Yaegi v0.16.1, so it is written in an older Go
// dialect and imports the standard library only.
package plugin

import (
	"context"
	"errors"
	"net/http"
)

// Config is what Traefik decodes from the middleware's settings.
type Config struct {
	PathPrefix string
}

// CreateConfig returns the defaults.
func CreateConfig() *Config { return &Config{} }

// New builds the middleware. It reports every mistake of the configuration in
// one error.
func New(_ context.Context, _ http.Handler, _ *Config, _ string) (http.Handler, error) {
	return nil, errors.New("not built yet")
}
