package plugin

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func foreign() *Config {
	c := config()
	c.Backend = "other"
	c.BackendAuth = "none"
	c.BackendToken = ""
	c.PathPrefix = "/foo"
	c.BackendPath = "/"
	return c
}

// answering is a backend with one answer.
type answering struct {
	status   int
	header   http.Header
	body     string
	encoding string // that was asked for
}

func (a *answering) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	a.encoding = r.Header.Get("Accept-Encoding")
	for key, values := range a.header {
		rw.Header()[key] = values
	}
	rw.WriteHeader(a.status)
	for rest := a.body; rest != ""; {
		n := len(rest)
		if n > 32<<10 {
			n = 32 << 10
		}
		if _, err := rw.Write([]byte(rest[:n])); err != nil {
			return
		}
		rest = rest[n:]
	}
}

const evil = "event: endpoint\ndata: http://evil.example/\n\n"

// Only a good event stream is changed, and what a client that asked for one could
// take for it.
func TestOtherAnswersPass(t *testing.T) {
	logged(t)
	rows := []struct {
		kind, accept string
		status, want int
	}{
		{"text/event-stream", "text/event-stream", 404, 404}, {"text/event-stream", "text/event-stream", 302, 302},
		{"text/html", "*/*", 200, 200}, {"application/json", "", 200, 200}, {"text/html", "text/event-stream", 200, 502},
		{"text/event-stream", "*/*", 200, 502},
	}
	for i := range rows {
		b := &answering{status: rows[i].status, body: evil, header: http.Header{"Content-Type": {rows[i].kind}, "Content-Encoding": {"gzip"}, "Content-Length": {"43"}}}
		r := get("/foo/sse")
		r.Header.Set("Accept", rows[i].accept)
		rec := do(start(t, foreign(), b), r)
		if rec.Code != rows[i].want || (rec.Code != 502) != (rec.Body.String() == evil) {
			t.Errorf("%v: changed to %d %q", rows[i], rec.Code, rec.Body.String())
		}
	}
}

func TestStreamIsStopped(t *testing.T) {
	log := logged(t)
	b := &answering{status: 200, body: evil, header: http.Header{"Content-Type": {"Text/Event-Stream; charset=utf-8"}}}
	rec := do(start(t, foreign(), b), get("/foo/sse"))
	if rec.Body.Len() != 0 || b.encoding != "identity" {
		t.Errorf("%q passes, encoding %q", rec.Body.String(), b.encoding)
	}
	if !strings.Contains(log.String(), "cannot be mapped") || !strings.Contains(log.String(), `"verdict":"answer_stopped"`) {
		t.Errorf("log: %s", log.String())
	}
	// A client takes an endpoint as the answer to its first message, too.
	rec = do(start(t, foreign(), b), post("/foo/mcp", called("initialize", "{}")))
	if rec.Body.Len() != 0 {
		t.Errorf("%q passes", rec.Body.String())
	}
	b.header["Content-Encoding"] = []string{"gzip"}
	if rec = do(start(t, foreign(), b), get("/foo/sse")); rec.Code != 502 || strings.Contains(rec.Body.String(), "evil") {
		t.Errorf("an encoded stream: %d %q", rec.Code, rec.Body.String())
	}
}

// A client may find another character set than the first that looks like one,
// and another type than the first of two: it would read another stream.
func TestStreamIsReadAsClientsDo(t *testing.T) {
	log := logged(t)
	for _, kind := range []string{
		"charset=utf-16le", "xcharset=utf-8; charset=utf-7", `x="charset=utf-8"; charset=utf-7`, `x="charset=utf-8;"; charset=utf-7`,
		"charset*=utf-8''utf-7", "charset*0=utf-; charset*1=7", "charset=utf-8; charset=utf-7", "charset=utf-8x", `charset="utf-8` + "\t16\"",
	} {
		b := &answering{status: 200, body: "event+ADo endpo+AGk-nt\ndata: /steal\n\n", header: http.Header{"Content-Type": {"text/event-stream; " + kind}}}
		if rec := do(start(t, foreign(), b), get("/foo/sse")); rec.Code != 502 || strings.Contains(rec.Body.String(), "steal") {
			t.Errorf("%s: %d %q", kind, rec.Code, rec.Body.String())
		}
	}
	for _, kind := range []string{"", "; charset=utf-8", `;charset="UTF-8"`, "; charset = utf8 ; x=y", ";boundary=charse"} {
		b := &answering{status: 200, body: "event: endpoint\ndata: /m\n\n", header: http.Header{"Content-Type": {"text/event-stream" + kind}}}
		if rec := do(start(t, foreign(), b), get("/foo/sse")); rec.Body.String() != "event: endpoint\ndata: /foo/m\n\n" {
			t.Errorf("twin %s: %d %q", kind, rec.Code, rec.Body.String())
		}
	}
	for kinds, want := range map[string]string{"application/json,text/event-stream": "", "application/json": evil} {
		b := &answering{status: 200, body: evil, header: http.Header{"Content-Type": strings.Split(kinds, ","), "Content-Length": {"43"}}}
		if rec := do(start(t, foreign(), b), post("/foo/mcp", called("tools/call", `{"name":"read_file"}`))); rec.Body.String() != want {
			t.Errorf("%s: %d %q", kinds, rec.Code, rec.Body.String())
		}
	}
	for n, want := range map[int]int{maxHeaders: 200, maxHeaders + 1: 502} {
		if rec := do(start(t, foreign(), &answering{status: 200, header: manyHeaders(n)}), get("/foo/x")); rec.Code != want {
			t.Errorf("an answer with %d headers: %d", n, rec.Code)
		}
	}
	if !strings.Contains(log.String(), "another character set") {
		t.Error("no line says why")
	}
}

// The backend sends its second event only after the client has the first one, or
// its second part of any other answer.
func TestStreamIsFlushed(t *testing.T) {
	logged(t)
	streamed(t, "text/event-stream", "/foo/m")
	streamed(t, "text/plain", "/m")
}

func streamed(t *testing.T, kind, endpoint string) {
	read := make(chan struct{})
	next := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", kind)
		if kind == "text/event-stream" {
			rw.Header().Set("Content-Length", "1000")
		}
		rw.WriteHeader(200)
		<-read // the header
		for _, event := range []string{"event: endpoint\ndata: /m\n\n", "data: 1\n\n", ": 2\n\n"} {
			_, _ = rw.Write([]byte(event))
			<-read
		}
	})
	server := httptest.NewServer(start(t, foreign(), next))
	defer server.Close()
	r, err := http.NewRequest("GET", server.URL+"/foo/sse", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+clientToken)
	resp, err := (&http.Client{Timeout: time.Minute}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	read <- struct{}{}
	body := bufio.NewReader(resp.Body)
	for _, want := range []string{"event: endpoint\n", "data: " + endpoint + "\n", "\n", "data: 1\n", "\n", ": 2\n", "\n"} {
		line, err := body.ReadString('\n')
		if line != want || err != nil {
			t.Fatalf("%q, %v, want %q", line, err, want)
		}
		if line == "\n" {
			read <- struct{}{}
		}
	}
	if resp.ContentLength != -1 {
		t.Errorf("Content-Length %d", resp.ContentLength)
	}
	_ = resp.Body.Close()
}

// breaking panics as a writer of a proxy whose client is gone.
type breaking struct{ *httptest.ResponseRecorder }

func (b *breaking) Write([]byte) (int, error) { panic("gone") }

func TestWriterSurvivesPanics(t *testing.T) {
	logged(t)
	wrote := make(chan error, 1)
	next := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, err := rw.Write([]byte("data: 1\n\n"))
		wrote <- err
	})
	start(t, foreign(), next).ServeHTTP(&breaking{httptest.NewRecorder()}, get("/foo/sse"))
	if err := <-wrote; err == nil {
		t.Error("a write that panics reports no error")
	}
}
