package plugin

import (
	"bytes"
	"strings"
	"testing"
)

func newScanner() *scanner {
	return &scanner{limit: maxEvent, mapping: mapping{prefix: "/foo", base: "/sse", host: "node.example", scheme: "http"}}
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
	{"event: endpoint\rdata: /m\r\r", "event: endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\rdata: /m\r\n\r\n", "event: endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\ndata: /m\r\n\n", "event: endpoint\ndata: /foo/m\r\n\n"},
	{"data: /m\nevent: endpoint\n\n", "data: /foo/m\nevent: endpoint\n\n"},
	{"event:endpoint\ndata:/m\n\n", "event:endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\ndata: /m\ndata: ?x=1\n\n", "event: endpoint\ndata: /foo/m?x=1\n\n"},
	{"id: 1\nevent: endpoint\nretry: 5\ndata: /m\n: c\n\n", "id: 1\nevent: endpoint\nretry: 5\ndata: /foo/m\n: c\n\n"},
	{": hello\n\n: more\nevent: endpoint\ndata: /m\n\n", ": hello\n\n: more\nevent: endpoint\ndata: /foo/m\n\n"},
	{"\xef\xbb\xbfevent: endpoint\ndata: /m\n\n", "\xef\xbb\xbfevent: endpoint\ndata: /foo/m\n\n"},
	{"event: other\nevent: endpoint\ndata: /m\n\n", "event: other\nevent: endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\nevent: message\ndata: /m\n\n", "event: endpoint\nevent: message\ndata: /foo/m\n\n"},
	{"event: message\ndata: /m\n\nevent: endpoint\ndata: /m\n\n", "event: message\ndata: /m\n\nevent: endpoint\ndata: /foo/m\n\n"},
	{"event: endpoint\ndata: /m\n\nevent: endpoint\ndata: /n\n\n", "event: endpoint\ndata: /foo/m\n\nevent: endpoint\ndata: /foo/n\n\n"},
	{"event: endpoint\ndata: /foo/m\n\n", "event: endpoint\ndata: /foo/m\n\n"},
	{"event:  endpoint \ndata: /m\n\n", "event:  endpoint \ndata: /foo/m\n\n"},
	{"Event: endpoint\ndata: /m\n\n", "Event: endpoint\ndata: /foo/m\n\n"},
	// Clients differ in what they take for the type: none gets an endpoint as it came.
	{"event: endpoint\nevent : message\ndata: /m\n\n", "event: endpoint\nevent : message\ndata: /foo/m\n\n"},
	{"event: endpoint\nEvent: message\ndata: /m\n\n", "event: endpoint\nEvent: message\ndata: /foo/m\n\n"},
	{"event: endpoint\n\xef\xbb\xbfevent: message\ndata: /m\n\n", "event: endpoint\n\xef\xbb\xbfevent: message\ndata: /foo/m\n\n"},
	{"event : endpoint\ndata: /m\n\nevent: endpoint\ndata: /n\n\n", "event : endpoint\ndata: /foo/m\n\nevent: endpoint\ndata: /foo/n\n\n"},
	{"data: event: endpoint\n\ndata: {}\n\n", "data: event: endpoint\n\ndata: {}\n\n"},
	{"data: a\r\n\r\n\r\n\r\ndata: b\n\n", "data: a\r\n\r\n\r\n\r\ndata: b\n\n"},
	{"\n\r\n\r\n", "\n\r\n\r\n"},
	{"event: endpoint\ndata: /m", "event: endpoint\ndata: /foo/m"},
	{"data: {\"a\":1}", "data: {\"a\":1}"},
	{"", ""},
}

// lineFeeds is a text with one kind of line end, as each piece of a stream may
// have another.
func lineFeeds(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

func TestScanAtEveryCut(t *testing.T) {
	for i := range eventStreams {
		row := eventStreams[i]
		for n := 1; n <= len(row.in)+1; n++ {
			got, why := scanAll(newScanner(), row.in, n)
			if lineFeeds(got) != lineFeeds(row.want) || why != "" {
				t.Errorf("%q in pieces of %d: %q (%s), want %q", row.in, n, got, why, row.want)
			}
			if n > len(row.in) && got != row.want && !strings.HasSuffix(row.in, "\r") {
				t.Errorf("%q in one piece: %q, want %q", row.in, got, row.want)
			}
		}
	}
}

func TestScanLongLines(t *testing.T) {
	long := strings.Repeat("x", 8<<20)
	for _, before := range []string{"data: " + long + "\n\n", "event: message\ndata: " + long + "\r\n\r\n", ":" + long + "\n",
		"data: a\ndata: " + long + "\ndata: b\n\n", "data: " + long + "\nevent: message\nid: 1\n\n"} {
		in := before + "event: endpoint\ndata: /m\n\n" + before
		want := before + "event: endpoint\ndata: /foo/m\n\n" + before
		if got, why := scanAll(newScanner(), in, 32<<10); got != want || why != "" {
			t.Errorf("a long line changed: %d bytes of %d (%s)", len(got), len(want), why)
		}
	}
}

// What has passed cannot become an endpoint afterwards, and what some client
// could read otherwise does not pass.
func TestScanRefuses(t *testing.T) {
	long := strings.Repeat("x", 2*maxEvent)
	for _, in := range []string{
		"data: " + long + "\nevent: endpoint\ndata: //evil.example\n\n",
		"data: " + long + "\n event: endpoint\ndata: //evil.example\n\n",
		"data: " + long + "\nevent:" + strings.Repeat(" ", 2000) + "endpoint\ndata: //evil.example\n\n",
		"data: //evil.example\n: " + long + "\nevent: endpoint\n\n",
		"event: endpoint\ndata: //evil.example/\n\n",
		"event: endpoint\ndata: //evil.example/",
		"data: //evil.example/\nevent: endpoint",
		"event: endpoint\nData: //evil.example/\n\n",
		":" + long + "\n\xef\xbb\xbfevent: endpoint\ndata: /m\n\nevent: endpoint\ndata: //evil.example\n\n",
		"event: endpoint\nevent : message\ndata: //evil.example/\n\n",
		"event: endpoint\ndata: /m\n\nevent: endpoint\ndata: //evil.example/\n\n",
		"event: endpoint\n\ndata: //evil.example/\n\n",
		"event: endpoint\u2028\ndata: //evil.example/\n\n\n",
		"event: \rendpoint\rdata: /m\n\nevent: endpoint\ndata: //evil.example/\n\n",
	} {
		for _, n := range []int{1000, 1 << 20} {
			got, why := scanAll(newScanner(), in, n)
			for name, events := range clientViews(got) {
				for i := range events {
					if events[i].kind == "endpoint" && strings.Contains(events[i].data, "evil") {
						t.Errorf("%.60q in pieces of %d: %s sees %q (%s)", in, n, name, events[i].data, why)
					}
				}
			}
		}
	}
}

// Each comment and event passes when it is complete, not later.
func TestScanHoldsNothingBack(t *testing.T) {
	s := newScanner()
	for _, piece := range []string{": keep-alive\n", "\n", "data: 1\n\n", ": again\n", "id: 1\ndata: 2\r\n\r\n", "event: endpoint\ndata: /foo/m\n\n"} {
		if passed, why := feed(s, []byte(piece)); string(passed) != piece || why != "" {
			t.Errorf("%q: %q passes (%s)", piece, passed, why)
		}
	}
	if passed, _ := feed(s, []byte("data: 3\r\r")); string(passed) != "data: 3\n\n" {
		t.Errorf("an event with CR only: %q passes", passed)
	}
	if passed, _ := feed(s, []byte("\ndata: 4\n\n")); string(passed) != "data: 4\n\n" {
		t.Errorf("behind the second half of a line end: %q passes", passed)
	}
}

// What JSON has in a string stays what it is, in whichever way it is sent.
func TestScanKeepsText(t *testing.T) {
	text := "Å event: endpointÅ 三丅event: \u5b85endpoint a\u2028event: endpoint\u2028data: //evil.example\u2028\u2028\u0085\u2029b"
	for _, before := range []string{"", strings.Repeat("x", 2*maxEvent), strings.Repeat("\u2028", maxEvent)} {
		body := string(encode(map[string]string{"text": "T" + before}))
		body = strings.Replace(body, "T", text, 1)
		for _, n := range []int{1, 1000, 1 << 20} {
			if n == 1 && before != "" {
				continue
			}
			got, why := scanAll(newScanner(), "event: message\ndata: "+body+"\n\n", n)
			data := strings.TrimSuffix(strings.TrimPrefix(got, "event: message\ndata: "), "\n\n")
			if why != "" || !sameJSON(data, body) {
				t.Errorf("in pieces of %d: %.200q (%s)", n, got, why)
			}
		}
	}
	plain := "event: message\ndata: {\"text\":\"a\u2028b\u0085\"}\n\n"
	if got, _ := scanAll(newScanner(), plain, 7); got != plain {
		t.Errorf("without an endpoint it changes to %q", got)
	}
}
