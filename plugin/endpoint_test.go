package plugin

import "testing"

func TestPublicEndpoint(t *testing.T) {
	rows := []struct{ prefix, backend, base, ref, want string }{
		// Shapes of real backends, at "/".
		{"/foo/bar", "", "/sse", "/messages?sessionId=1", "/foo/bar/messages?sessionId=1"},
		{"/foo/bar", "", "/sse", "messages?sessionId=1", "/foo/bar/messages?sessionId=1"},
		{"/foo/bar", "", "/sse", "./messages?x", "/foo/bar/messages?x"},
		{"/foo/bar", "", "/sse", "?sessionId=1", "/foo/bar/sse?sessionId=1"},
		{"/foo/bar", "", "/a/sse", "messages", "/foo/bar/a/messages"},
		{"/foo/bar", "", "/a/sse", "../messages", ""},
		{"/foo/bar", "", "/sse", "", "/foo/bar/sse"},
		{"/foo/bar", "", "/", "messages", "/foo/bar/messages"},
		{"/foo/bar", "", "/sse", "http://node.example/messages?x=1", "/foo/bar/messages?x=1"},
		{"/foo/bar", "", "/sse", "HTTP://NODE.example:80/messages", "/foo/bar/messages"},
		{"/foo/bar", "", "/sse", "//node.example/messages", "/foo/bar/messages"},
		{"/foo/bar", "", "/sse", "http://node.example", "/foo/bar/"},
		{"/foo/bar", "", "/sse", "/foo/bar/messages?x", "/foo/bar/messages?x"},
		{"/foo/bar", "", "/sse", "/foo/barista", "/foo/bar/foo/barista"},
		{"/foo/bar", "", "/sse", "/messages/a%2Fb?c=%2F&d=//", "/foo/bar/messages/a%2Fb?c=%2F&d=//"},
		{"/foo/bar", "", "/sse", " /messages\n?sessionId=1\t", "/foo/bar/messages?sessionId=1"},
		{"/foo/bar", "", "/sse", "/messages#x", "/foo/bar/messages"},
		{"/foo/bar", "", "/sse", "/messages?u=http://evil.example/", "/foo/bar/messages?u=http://evil.example/"},
		// At another path, the same path, below the prefix, and the root.
		{"/foo", "/srv", "/srv/sse", "/srv/messages", "/foo/messages"},
		{"/foo", "/srv", "/srv/sse", "/foo/messages", "/foo/messages"},
		{"/foo", "/srv", "/srv/sse", "/srvx/messages", ""},
		{"/foo", "/srv", "/srv/sse", "/messages", ""},
		{"/mcp", "/mcp", "/mcp/sse", "/mcp/sse?sessionid=1", "/mcp/sse?sessionid=1"},
		{"/mcp", "/mcp", "/mcp/sse", "/messages?x", "/mcp/messages?x"}, // StripPrefix behind
		{"/foo", "/foo/x", "/foo/x/sse", "/foo/x/messages", "/foo/messages"},
		{"/foo", "/foo/x", "/foo/x/sse", "/foo/messages", "/foo/messages"},
		{"", "", "/sse", "/messages", "/messages"},
		{"", "/x", "/x/sse", "/x/messages", "/messages"},
		// What a backend calls itself behind the edge.
		{"/foo", "", "/sse", "http://127.0.0.1:3001/messages?x", "/foo/messages?x"},
		{"/foo", "", "/sse", "http://localhost:3001/messages", "/foo/messages"},
		{"/foo", "", "/sse", "http://[::1]:3001/messages", "/foo/messages"},
		{"/foo", "", "/sse", "http://inner.example:8080/messages", "/foo/messages"},
		{"/foo", "", "/sse", "https://inner.example:8080/messages", ""},
		{"/foo", "", "/sse", "http://inner.example/messages", ""},
		{"/foo", "", "/sse", "http://127.0.0.1.evil.example/messages", ""},
		{"/foo", "", "/sse", "http://127.evil.example/messages", ""},
		{"/foo", "", "/sse", "http://localhost.evil.example/messages", ""},
		{"/foo", "", "/sse", "http://127.0.0.1@evil.example/messages", ""},
		{"/foo", "", "/sse", "http://127.0.0.1:3001/../admin", ""},
		{"/foo", "/srv", "/srv/sse", "http://127.0.0.1:3001/admin", ""},
		// Other origins.
		{"/foo", "", "/sse", "https://evil.example/messages", ""},
		{"/foo", "", "/sse", "//evil.example/messages", ""},
		{"/foo", "", "/sse", "///evil.example/messages", ""},
		{"/foo", "", "/sse", "/\\evil.example", ""},
		{"/foo", "", "/sse", "\\\\evil.example", ""},
		{"/foo", "", "/sse", "//ev\nil.example/", ""},
		{"/foo", "", "/sse", "/\n/evil.example/", ""},
		{"/foo", "", "/sse", "http:evil.example/x", ""},
		{"/foo", "", "/sse", "http:/evil.example/x", ""},
		{"/foo", "", "/sse", "http:///evil.example/x", ""},
		{"/foo", "", "/sse", "http://node.example@evil.example/", ""},
		{"/foo", "", "/sse", "http://user@node.example/messages", ""},
		{"/foo", "", "/sse", "http://node.example:8080/messages", ""},
		{"/foo", "", "/sse", "http://node.example.evil.example/", ""},
		{"/foo", "", "/sse", "https://node.example/messages", ""},
		{"/foo", "", "/sse", "ftp://node.example/messages", ""},
		{"/foo", "", "/sse", "javascript:alert(1)", ""},
		{"/foo", "", "/sse", "data:text/plain,x", ""},
		{"/foo", "", "/sse", "\x01http://evil.example/", ""},
		{"/foo", "", "/sse", "/mess ages", ""},
		{"/foo", "", "/sse", "/m\u2028essages", ""},
		{"/foo", "", "/sse", "/messages?x=\u0085", ""},
		{"/foo", "", "/sse", "/messages?x=\x0by", ""},
		// Paths that would leave the prefix.
		{"/foo", "", "/sse", "/../admin", ""},
		{"/foo", "", "/sse", "../admin", ""},
		{"/foo", "", "/sse", "/foo/../admin", ""},
		{"/foo", "", "/sse", "/%2e%2e/admin", ""},
		{"/foo", "", "/sse", "/.%2E/admin", ""},
		{"/foo", "", "/sse", "%2e%2e/admin", ""},
		{"/foo", "", "/sse", "/..;x/admin", ""},
		{"/foo", "", "/sse", "/..%3bx/admin", ""},
		{"/foo", "", "/sse", "/a//b", ""},
		{"/foo", "", "/sse", "a//b", ""},
		{"/foo", "", "/sse", "/foo//evil.example", ""},
		{"/foo", "", "/sse", "http://node.example//evil.example/", ""},
		{"/foo", "", "/sse", "http://node.example/../admin", ""},
	}
	for i := range rows {
		row := rows[i]
		p := mapping{prefix: row.prefix, backend: row.backend, base: row.base, host: "node.example", scheme: "http", inner: map[string]bool{"http://inner.example:8080": true}}
		got, why := publicEndpoint(p, row.ref)
		if got != row.want || (why == "") != (row.want != "") {
			t.Errorf("%q from %s at %s: %q (%s), want %q", row.ref, row.backend, row.prefix, got, why, row.want)
		}
	}
	tls := mapping{prefix: "/foo", base: "/sse", host: "node.example", scheme: "https"}
	for ref, want := range map[string]string{
		"https://node.example:443/m": "/foo/m", "http://node.example/m": "/foo/m", "https://node.example:8443/m": "",
	} {
		if got, _ := publicEndpoint(tls, ref); got != want {
			t.Errorf("behind TLS %q: %q, want %q", ref, got, want)
		}
	}
}
