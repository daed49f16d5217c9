package main

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// endpoints of Docker's API, and the ways that requests to them are disguised
// for proxies that compare them. None of them is a word of this protocol.
var endpoints = []string{
	"GET /_ping", "HEAD /_ping", "GET /version", "GET /info", "GET /events", "GET /system/df", "POST /auth", "POST /session", "POST /grpc", "POST /build",
	"GET /containers/json", "POST /containers/create?name=mcp-sandbox-s", "GET /containers/ID/json", "GET /containers/ID/top?ps_args=aux%20e", "GET /containers/ID/logs?stdout=1",
	"GET /containers/ID/changes", "GET /containers/ID/export", "GET /containers/ID/stats", "POST /containers/ID/resize?h=1&w=1", "POST /containers/ID/start", "POST /containers/ID/stop",
	"POST /containers/ID/restart", "POST /containers/ID/kill", "POST /containers/ID/update", "POST /containers/ID/rename?name=x", "POST /containers/ID/pause", "POST /containers/ID/unpause",
	"POST /containers/ID/attach?stream=1&logs=1", "GET /containers/ID/attach/ws", "POST /containers/ID/wait", "DELETE /containers/ID?force=1", "HEAD /containers/ID/archive?path=/",
	"GET /containers/ID/archive?path=/", "PUT /containers/ID/archive?path=/", "POST /containers/prune", "POST /containers/ID/exec", "POST /exec/ID/start", "POST /exec/ID/resize", "GET /exec/ID/json",
	"GET /images/json", "GET /images/img/json", "GET /images/img/history", "POST /images/img/push", "POST /images/img/tag", "DELETE /images/img", "GET /images/search?term=x", "POST /images/prune",
	"POST /images/create?fromImage=evil", "POST /images/load", "GET /images/get?names=img", "POST /commit?container=ID", "GET /distribution/img/json",
	"GET /volumes", "POST /volumes/create", "GET /volumes/v", "DELETE /volumes/v", "POST /volumes/prune", "GET /networks", "POST /networks/create", "POST /networks/n/connect", "POST /networks/n/disconnect",
	"DELETE /networks/n", "GET /plugins", "POST /plugins/pull?remote=x", "GET /swarm", "POST /swarm/init", "GET /nodes", "GET /services", "POST /services/create", "GET /tasks", "GET /secrets", "GET /configs",
	// disguises
	"POST //containers/create", "POST /v1.41/../containers/create", "POST /v1.41/%63ontainers/%63reate", "POST /containers%2fcreate", "POST /v1.12/containers/create", "POST /v1.23/containers/ID/start",
	"POST /v1.24/containers/create", "POST /v1.99/containers/create", "POST /v1.41.0/containers/create", "POST /V1.41/containers/create", "POST http://docker/containers/create", "POST /containers/create/",
	"POST /libpod/containers/create", "POST /v4.0.0/libpod/containers/create", "POST /containers/create;name=x", "POST /containers/create#x", "POST /containers/create?name=a&name=b", "POST /containers/create?name=/x",
	"POST /containers/create?platform=x", "POST /containers/create?name=mcp-sandbox-s%0A", "CONNECT docker:2375", "PRI *",
}

// TestHTTPIsNotSpoken: as the first words, after the handshake, and behind a
// good request, with every framing of a body: nothing reaches the daemon.
func TestHTTPIsNotSpoken(t *testing.T) {
	b := start(t, goodConfig)
	body := `{"Image":"img","HostConfig":{"Privileged":true},"Privileged":true}`
	for _, headers := range []string{
		fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		fmt.Sprintf("Content-Length: 0\r\n\r\n%s", body),
		fmt.Sprintf("Content-Length: %d\r\nContent-Length: 0\r\n\r\n%s", len(body), body),
		fmt.Sprintf("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(body), body),
		fmt.Sprintf("Expect: 100-continue\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 11\r\n\r\nname=evil&x",
		"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n\x1f\x8b",
		"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\nstdin",
		"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		for i, endpoint := range endpoints {
			request := strings.ReplaceAll(endpoint, "ID", strings.Repeat("ab", 32)) + []string{" HTTP/1.1", " HTTP/1.0"}[i%2] + "\r\nHost: docker\r\n" + headers
			h := b.dial()
			if i%3 > 0 {
				h.must(`{"verb":"policy","version":1}`)
			}
			if i%3 > 1 {
				request = `{"verb":"attach","server":"s"}` + "\n" + request
			}
			before, dials := len(b.requests()), b.dials.Load()
			h.conn.SetWriteDeadline(time.Now().Add(patience))
			io.WriteString(h.conn, request)
			answer, _ := io.ReadAll(h.in)
			if text := string(answer); strings.Count(text, "\n") > 1 || strings.Contains(text, "HTTP/") || (text != "" && !strings.Contains(text, `"code":"denied"`)) {
				t.Errorf("%q: %q", request, text)
			}
			if b.dials.Load() != dials || len(b.requests()) != before {
				t.Fatalf("%q reached the daemon", request)
			}
		}
	}
}
