package plugin

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

const toolList = `{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read_file","description":"<a> & 12345678901234567890"},{"name":"rm_all"},{"description":"nameless"}],"nextCursor":"c"}}`

func filtering() *Config {
	c := foreign()
	c.FilterTools = true
	return c
}

func list() *http.Request { return post("/foo/mcp", called("tools/list", "{}")) }

func checkList(t *testing.T, what, got string) {
	t.Helper()
	if !strings.Contains(got, `"read_file"`) || strings.Contains(got, "rm_all") || strings.Contains(got, "nameless") ||
		!strings.Contains(got, "<a> & 12345678901234567890") || !strings.Contains(got, `"nextCursor":"c"`) {
		t.Errorf("%s: %s", what, got)
	}
}

func TestFilter(t *testing.T) {
	logged(t)
	b := &answering{status: 200, body: toolList, header: http.Header{"Content-Type": {"application/json"}, "Content-Length": {"9999"}}}
	rec := do(start(t, filtering(), b), list())
	checkList(t, "JSON", rec.Body.String())
	if rec.Header().Get("Content-Length") == "9999" || b.encoding != "identity" {
		t.Errorf("Content-Length %s, encoding %q", rec.Header().Get("Content-Length"), b.encoding)
	}
	b = &answering{status: 200, body: ": hi\nevent: message\nid: 1\ndata: " + toolList + "\n\ndata: {}\n\n", header: http.Header{"Content-Type": {"text/event-stream"}}}
	rec = do(start(t, filtering(), b), list())
	checkList(t, "SSE", rec.Body.String())
	if !strings.HasPrefix(rec.Body.String(), ": hi\nevent: message\nid: 1\ndata: {") || !strings.HasSuffix(rec.Body.String(), "}\n\ndata: {}\n\n") {
		t.Errorf("the stream around it changed: %s", rec.Body.String())
	}
	b.body = "event: endpoint\ndata: /m\n\n" + b.body
	rec = do(start(t, filtering(), b), get("/foo/sse"))
	checkList(t, "legacy stream", rec.Body.String())
	if !strings.HasPrefix(rec.Body.String(), "event: endpoint\ndata: /foo/m\n\n") {
		t.Errorf("the endpoint is not mapped: %s", rec.Body.String())
	}
}

func TestFilterLeavesAlone(t *testing.T) {
	logged(t)
	json := http.Header{"Content-Type": {"application/json"}}
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"<no>"}}`,
		`{ "jsonrpc":"2.0","id":1, "result":{"tools":[{"name":"read_file"}]}}`,
	} {
		rec := do(start(t, filtering(), &answering{status: 200, body: body, header: json}), list())
		if rec.Body.String() != body {
			t.Errorf("%s became %s", body, rec.Body.String())
		}
	}
	// Without the option, for a token with *, and in answers to other methods.
	for _, change := range []func(*Config){func(c *Config) { c.FilterTools = false }, func(c *Config) { c.Tokens[0].Tools = []string{"*"} }} {
		c := filtering()
		change(c)
		if rec := do(start(t, c, &answering{status: 200, body: toolList, header: json}), list()); rec.Body.String() != toolList {
			t.Errorf("the list is filtered: %s", rec.Body.String())
		}
	}
	// A legacy server has nothing to say here: its answer comes on the stream.
	for _, b := range []*answering{{status: 202, header: http.Header{}}, {status: 202, header: json}} {
		if rec := do(start(t, filtering(), b), list()); rec.Code != 202 {
			t.Errorf("a legacy POST: status %d", rec.Code)
		}
	}
}

// What cannot be filtered does not pass.
func TestFilterFailsClosed(t *testing.T) {
	logged(t)
	json := http.Header{"Content-Type": {"application/json"}}
	sse := http.Header{"Content-Type": {"text/event-stream"}}
	rows := []*answering{
		{status: 200, header: json, body: "[" + toolList + "]"},
		{status: 200, header: json, body: `{"jsonrpc":"2.0","id":1,"result":{"content":[],"tools":[{"name":"rm_all"}]}}`},
		{status: 200, header: json, body: toolList[:60]},
		{status: 200, header: http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {"gzip"}}, body: toolList},
		{status: 200, header: sse, body: "data: [" + toolList + "]\n\n"},
		{status: 200, header: sse, body: "data: " + strings.Replace(toolList, "{", `{"a":"`+strings.Repeat("x", maxHeld)+`",`, 1) + "\n\n"},
		{status: 200, header: json, body: strings.Replace(toolList, "{", `{"a":"`+strings.Repeat("x", maxHeld)+`",`, 1)},
	}
	entry := func(tools string) string { return `{"jsonrpc":"2.0","id":1,"result":{"tools":` + tools + `}}` }
	plainText := http.Header{"Content-Type": {"text/plain"}}
	for _, body := range []string{
		entry(`[{"name":"read_file"},"rm_all"]`), entry(`[["rm_all"]]`), entry(`"rm_all"`), entry(`{"rm_all":1}`),
		entry(`[{"name":"read_file","name":"rm_all"}]`), entry(`[{"Name":"rm_all","name":"read_file"}]`),
		strings.Replace(entry(`[{"name":"rm_all"}]`), "tools", "Tools", 1), strings.Replace(entry(`[{"name":"rm_all"}]`), "result", "Result", 1),
		byteOrderMark + entry(`[{"name":"rm_all"}]`), "\u00a0" + entry(`[{"name":"rm_all"}]`), "\xff\xfe{\x00\"\x00r\x00m\x00_\x00a\x00l\x00l\x00",
	} {
		rows = append(rows, &answering{status: 200, header: json, body: body}, &answering{status: 200, header: plainText, body: body},
			&answering{status: 200, header: http.Header{}, body: body}, &answering{status: 200, header: sse, body: "data: " + body + "\n\n"})
	}
	for i := range rows {
		for _, r := range []*http.Request{post("/foo/mcp", readFile), get("/foo/mcp")} { // answers to something else
			if rec := do(start(t, filtering(), rows[i]), r); strings.Contains(strings.ReplaceAll(rec.Body.String(), "\x00", ""), "rm_all") {
				t.Errorf("answer %d to %s passes: %.200s", i, r.Method, rec.Body.String())
			}
		}
		rec := do(start(t, filtering(), rows[i]), list())
		if strings.Contains(rec.Body.String(), "rm_all") {
			t.Errorf("answer %d passes: %.200s", i, rec.Body.String())
		}
	}
}

// Clients read a stream in their own ways: mcp-go keeps the last of several data lines,
// others split at all that Unicode calls a line end, or trim a field's name. No list is
// hidden from the filter in between; a list in several lines is still filtered.
func TestFilterReadsAsClientsDo(t *testing.T) {
	logged(t)
	for _, body := range []string{
		"data: x\ndata: " + toolList + "\n\n", "data: x\r\ndata: " + toolList + "\r\n\r\n",
		"id: x\u2028data: " + toolList + "\n\n", "id: x\u0085data: " + toolList + "\n\n", "id: x\vdata: " + toolList + "\n\n",
		": x\u2028data: " + toolList + "\n\n", "data: x\u2028data: " + toolList + "\n\n",
		" data: " + toolList + "\n\n", "Data: " + toolList + "\n\n", "data : " + toolList + "\n\n", "\u00a0data: " + toolList + "\n\n",
		"data: {\"a\":\ndata: " + toolList + "\ndata: }\n\n",
	} {
		for _, kind := range []string{"text/event-stream", "application/json", ""} { // of a GET, some take all for a stream
			b := &answering{status: 200, body: body, header: http.Header{"Content-Type": {kind}}}
			rec := do(start(t, filtering(), b), get("/foo/sse"))
			for _, line := range strings.FieldsFunc(rec.Body.String(), func(r rune) bool { return strings.ContainsRune("\n\r\v\u0085\u2028", r) }) {
				if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(strings.ToLower(name)) == "data" && strings.HasPrefix(value, " {") && strings.Contains(value, "rm_all") {
					if !strings.HasPrefix(value, ` {"a":`) {
						t.Errorf("as %q passes: %q", kind, rec.Body.String())
					}
				}
			}
			twin := filtering()
			twin.FilterTools = false
			if rec := do(start(t, twin, b), get("/foo/sse")); !strings.Contains(rec.Body.String(), "rm_all") {
				t.Errorf("without the option the list is gone: %q", rec.Body.String())
			}
		}
	}
	sse := http.Header{"Content-Type": {"text/event-stream"}}
	lines := "data: " + strings.Replace(toolList, `,"result"`, "\ndata: ,\"result\"", 1) + "\n\n"
	checkList(t, "a list in two lines", do(start(t, filtering(), &answering{status: 200, body: lines, header: sse}), list()).Body.String())
	for _, body := range []string{"data: {\ndata: \"a\":1}\n\n", "data: {\"a\":\"\u2028\"}\n\n", ": hi\n\nid: 1\ndata:\n\n"} {
		rec := do(start(t, filtering(), &answering{status: 200, body: body, header: sse}), list())
		if want := strings.NewReplacer("{\ndata: ", "{", "\u2028", `\u2028`).Replace(body); rec.Body.String() != want {
			t.Errorf("%q became %q", body, rec.Body.String())
		}
	}
}

// Some clients (mcp-go) read a result out of a failure, whatever its type. An honest
// failure passes as it is, in any character set.
func TestFilterReadsFailures(t *testing.T) {
	logged(t)
	for _, code := range []int{302, 400, 404, 500} {
		for _, kind := range []string{"application/json", "text/event-stream", "text/html; charset=utf-16", ""} {
			b := &answering{status: code, body: toolList, header: http.Header{"Content-Type": {kind}}}
			rec := do(start(t, filtering(), b), list())
			checkList(t, http.StatusText(code)+" "+kind, rec.Body.String())
			twin := filtering()
			twin.FilterTools = false
			if got := do(start(t, twin, b), list()); rec.Code != code || got.Code != code || got.Body.String() != toolList {
				t.Errorf("%d %q: status %d; the twin %d %s", code, kind, rec.Code, got.Code, got.Body.String())
			}
		}
		for kind, body := range map[string]string{"text/html; charset=iso-8859-1": "<p>n\xe3o", "text/event-stream": "data: x\n\n",
			"application/json": `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"<no>"}}`, "text/plain": ""} {
			b := &answering{status: code, body: body, header: http.Header{"Content-Type": {kind}}}
			for _, r := range []*http.Request{list(), get("/foo/sse")} {
				if rec := do(start(t, filtering(), b), r); rec.Code != code || rec.Body.String() != body {
					t.Errorf("%s %d %s: %d %q", r.Method, code, kind, rec.Code, rec.Body.String())
				}
			}
		}
	}
}

// A backend whose long answers never end fills no memory: those that are held to be
// filtered have one budget, beside which small ones pass. All of it is given back.
func TestHeldAnswersAreBounded(t *testing.T) {
	logged(t)
	const many = 8
	piece := []byte(strings.Repeat(" ", 1<<20))
	for kind, begin := range map[string]string{"application/json": "", "text/event-stream": "data: "} {
		for _, filters := range []bool{true, false} {
			c := filtering()
			c.FilterTools = filters
			wrote, end := make(chan bool, many), make(chan struct{})
			h := start(t, c, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", kind)
				if r.Method == "GET" {
					_, _ = w.Write([]byte(begin + toolList + "\n\n"))
					return
				}
				_, err := w.Write([]byte(begin))
				for i := 0; i < 15 && err == nil; i++ {
					_, err = w.Write(piece)
				}
				wrote <- err == nil
				<-end
			}))
			var ended sync.WaitGroup
			for i := 0; i < many; i++ {
				ended.Add(1)
				go func() {
					defer ended.Done()
					do(h, list())
				}()
			}
			whole := 0
			for i := 0; i < many; i++ {
				if <-wrote {
					whole++
				}
			}
			if filters && (whole == 0 || whole > 4) || !filters && whole != many {
				t.Errorf("%s, filtered %v: %d answers of 15 MiB are held", kind, filters, whole)
			}
			if rec := do(h, get("/foo/sse")); filters {
				checkList(t, "a small answer beside them", rec.Body.String())
			}
			close(end)
			ended.Wait()
			if n := atomic.LoadInt64(&heldTogether); n != 0 {
				t.Errorf("%s: %d bytes stay counted", kind, n)
			}
		}
	}
}

// The option is for looks: the policy stands without it.
func TestFilteredToolIsRefused(t *testing.T) {
	logged(t)
	s := &seen{}
	if rec := do(start(t, filtering(), s), post("/foo/mcp", named("rm_all"))); s.calls != 0 || !strings.Contains(rec.Body.String(), "-32602") {
		t.Errorf("%d calls: %s", s.calls, rec.Body.String())
	}
}
