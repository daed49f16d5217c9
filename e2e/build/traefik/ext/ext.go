// Package ext stands in for Traefik's extension point: it adds no fields.
package ext

// HTTP adds nothing to Traefik's HTTP configuration.
type HTTP struct{}

// Router adds nothing to Traefik's routers.
type Router struct{}
