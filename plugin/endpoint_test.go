package plugin

import (
	"bytes"
	"strings"
	"testing"
)

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
		p := place{prefix: row.prefix, backend: row.backend, base: row.base, host: "node.example", scheme: "http"}
		got, why := publicEndpoint(p, row.ref)
		if got != row.want || (why == "") != (row.want != "") {
			t.Errorf("%q from %s at %s: %q (%s), want %q", row.ref, row.backend, row.prefix, got, why, row.want)
		}
	}
	tls := place{prefix: "/foo", base: "/sse", host: "node.example", scheme: "https"}
	for ref, want := range map[string]string{
		"https://node.example:443/m": "/foo/m", "http://node.example/m": "/foo/m", "https://node.example:8443/m": "",
	} {
		if got, _ := publicEndpoint(tls, ref); got != want {
			t.Errorf("behind TLS %q: %q, want %q", ref, got, want)
		}
	}
}

func newScanner() *scanner {
	return &scanner{seek: true, limit: maxEvent, place: place{prefix: "/foo", base: "/sse", host: "node.example", scheme: "http"}}
}

// scanAll feeds a stream in pieces, cut before every n-th byte.
func scanAll(s *scanner, stream string, n int) (string, string) {
	var got bytes.Buffer
	for len(stream) > 0 {
		if n > len(stream) {
			n = len(stream)
		}
		passed, why := feed(s, []byte(stream[:n]))
		got.Write(passed)
		if why != "" {
			return got.String(), why
		}
		stream = stream[n:]
	}
	passed, why := finishScan(s)
	got.Write(passed)
	return got.String(), why
}

var eventStreams = []struct{ in, want string }{
	{"event: endpoint\ndata: /m?x\n\nrest", "event: endpoint\ndata: /foo/m?x\n\nrest"},
	{"event: endpoint\r\ndata: /m\r\n\r\n", "event: endpoint\r\ndata: /foo/m\r\n\r\n"},
	{"event: endpoint\rdata: /m\r\r", "event: endpoint\rdata: /foo/m\r\r"},
	{"event: endpoint\rdata: /m\r\n\r\n", "event: endpoint\rdata: /foo/m\r\n\r\n"},
	{"event: endpoint\ndata: /m\r\n\n", "event: endpoint\ndata: /foo/m\r\n\n"},
	{"data: /m\nevent: endpoint\n\n", "data: /foo/m\nevent: endpoint\n\n"},
	{"event:endpoint\ndata:/m\n\n", "event:endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\ndata: /m\ndata: ?x=1\n\n", "event: endpoint\ndata: /foo/m?x=1\n\n"},
	{"id: 1\nevent: endpoint\nretry: 5\ndata: /m\n: c\n\n", "id: 1\nevent: endpoint\nretry: 5\ndata: /foo/m\n: c\n\n"},
	{": hello\n\n: more\nevent: endpoint\ndata: /m\n\n", ": hello\n\n: more\nevent: endpoint\ndata: /foo/m\n\n"},
	{"\xef\xbb\xbfevent: endpoint\ndata: /m\n\n", "\xef\xbb\xbfevent: endpoint\ndata: /foo/m\n\n"},
	{"event: other\nevent: endpoint\ndata: /m\n\n", "event: other\nevent: endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\nevent: message\ndata: /m\n\n", "event: endpoint\nevent: message\ndata: /m\n\n"},
	{"event: message\ndata: /m\n\nevent: endpoint\ndata: /m\n\n", "event: message\ndata: /m\n\nevent: endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\ndata: /m\n\nevent: endpoint\ndata: /n\n\n", "event: endpoint\ndata: /foo/m\n\nevent: endpoint\ndata: /n\n\n"},
	{"event: endpoint\ndata: /foo/m\n\n", "event: endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\n\nevent: endpoint\ndata: /m\n\n", "event: endpoint\n\nevent: endpoint\ndata: /foo/m\n\n"},
	{"event:  endpoint \ndata: /m\n\n", "event:  endpoint \ndata: /foo/m\n\n"},
	{"Event: endpoint\ndata: /m\n\n", "Event: endpoint\ndata: /foo/m\n\n"},
	// Clients differ in what they take for the type: none gets an endpoint as it came.
	{"event: endpoint\nevent : message\ndata: /m\n\n", "event: endpoint\nevent : message\ndata: /foo/m\n\n"},
	{"event: endpoint\nEvent: message\ndata: /m\n\n", "event: endpoint\nEvent: message\ndata: /foo/m\n\n"},
	{"event: endpoint\n\xef\xbb\xbfevent: message\ndata: /m\n\n", "event: endpoint\n\xef\xbb\xbfevent: message\ndata: /foo/m\n\n"},
	{"event : endpoint\ndata: /m\n\nevent: endpoint\ndata: /n\n\n", "event : endpoint\ndata: /foo/m\n\nevent: endpoint\ndata: /foo/n\n\n"},
	{"data: event: endpoint\n\ndata: {}\n\n", "data: event: endpoint\n\ndata: {}\n\n"},
	{"data: a\r\n\r\n\r\n\r\ndata: b\n\n", "data: a\r\n\r\n\r\n\r\ndata: b\n\n"},
	{"\n\r\n\r\r\n", "\n\r\n\r\r\n"},
	{"event: endpoint\ndata: /m", "event: endpoint\ndata: /foo/m"},
	{"data: {\"a\":1}", "data: {\"a\":1}"},
	{"", ""},
}

func TestScanAtEveryCut(t *testing.T) {
	for i := range eventStreams {
		row := eventStreams[i]
		for n := 1; n <= len(row.in)+1; n++ {
			if got, why := scanAll(newScanner(), row.in, n); got != row.want || why != "" {
				t.Errorf("%q in pieces of %d: %q (%s), want %q", row.in, n, got, why, row.want)
			}
		}
	}
}

func TestScanLongLines(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	for _, before := range []string{"data: " + long + "\n\n", "event: message\ndata: " + long + "\r\n\r\n", ":" + long + "\n",
		"data: a\ndata: " + long + "\ndata: b\n\n"} {
		in := before + "event: endpoint\ndata: /m\n\n" + before
		want := before + "event: endpoint\ndata: /foo/m\n\n" + before
		if got, why := scanAll(newScanner(), in, 32<<10); got != want || why != "" {
			t.Errorf("a long line changed: %d bytes of %d (%s)", len(got), len(want), why)
		}
	}
}

// What has passed cannot become an endpoint afterwards.
func TestScanRefuses(t *testing.T) {
	long := strings.Repeat("x", 2*maxEvent)
	for _, in := range []string{
		"data: " + long + "\nevent: endpoint\ndata: //evil.example\n\n",
		"data: //evil.example\n: " + long + "\nevent: endpoint\n\n",
		"event: endpoint\ndata: //evil.example/\n\n",
		"event: endpoint\ndata: //evil.example/",
		"data: //evil.example/\nevent: endpoint",
		"event: endpoint\nData: //evil.example/\n\n",
		":" + long + "\n\xef\xbb\xbfevent: endpoint\ndata: /m\n\nevent: endpoint\ndata: //evil.example/\n\n",
		"event: endpoint\nevent : message\ndata: //evil.example/\n\n",
	} {
		for _, n := range []int{1000, 1 << 20} {
			if got, why := scanAll(newScanner(), in, n); why == "" || strings.Contains(got, "event: endpoint\n\n") {
				t.Errorf("%.40q in pieces of %d passes", in, n)
			}
		}
	}
}

// Each comment and event passes when it is complete, not later.
func TestScanHoldsNothingBack(t *testing.T) {
	s := newScanner()
	for _, piece := range []string{": keep-alive\n", "\n", "data: 1\n\n", ": again\r", "\n", "id: 1\ndata: 2\r\n\r\n", "event: endpoint\ndata: /foo/m\n\n", "da", "ta"} {
		if passed, why := feed(s, []byte(piece)); string(passed) != piece || why != "" {
			t.Errorf("%q: %q passes (%s)", piece, passed, why)
		}
	}
}
