package plugin

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// Names of tools have any characters; grants write them percent-encoded, and what
// is compared is what they stand for.
func TestGrantsOfAnyName(t *testing.T) {
	logged(t)
	for _, row := range []struct {
		backend, grant, path string
		pass, refuse         []string
	}{
		{"sandbox", "user%2Fupdate", "/mcp/mcp", []string{"user/update"}, []string{"user%2Fupdate", "user", "update",
			"user/updat"}},
		{"other", "user%2fupdate", "/mcp/mcp", []string{"user/update"}, []string{"user%2fupdate"}},
		{"sandbox", "Create%20CIFS%20Share", "/mcp/mcp", []string{"Create CIFS Share"},
			[]string{"Create%20CIFS%20Share", "create cifs share"}},
		{"sandbox", "%C3%BCbung", "/mcp/mcp", []string{"übung"}, []string{"u\u0308bung", "%C3%BCbung"}},
		{"sandbox", "ctx%3Aget", "/mcp/mcp", []string{"ctx:get"}, []string{"ctx_get"}},
		{"sandbox", "%2A", "/mcp/mcp", []string{"*"}, []string{"read_file"}},
		{"sandbox", "a%2Cb", "/mcp/mcp", []string{"a,b"}, []string{"a", "b"}},
		{"sandbox", "%72ead_file", "/mcp/mcp", []string{"read_file"}, []string{"%72ead_file"}},
		{"hub", "git/user%2Fupdate", "/mcp/servers/git/mcp", []string{"user/update"}, []string{"user%2Fupdate",
			"update"}},
		{"hub", "git/%2A", "/mcp/servers/git/mcp", []string{"*"}, []string{"log"}},
	} {
		c := config()
		c.Backend = row.backend
		c.Tokens[0].Tools = []string{row.grant}
		s := &seen{}
		h := start(t, c, s)
		for pass, names := range map[bool][]string{true: row.pass, false: row.refuse} {
			for _, name := range names {
				quoted, _ := json.Marshal(name)
				s.calls = 0
				do(h, post(row.path, strings.Replace(readFile, `"read_file"`, string(quoted), 1)))
				if (s.calls == 1) != pass {
					t.Errorf("%s on %s: %s reached the backend %d times", row.grant, row.backend, quoted, s.calls)
				}
				if pass && row.backend != "other" && s.request.Header.Get("X-Sallyport-Tools") != row.grant {
					t.Errorf("%s: the backend is told %q", row.grant, s.request.Header["X-Sallyport-Tools"])
				}
			}
		}
	}
}

// The backend learns what was written, without prefixes.
func TestGrantsAsTheBackendSeesThem(t *testing.T) {
	logged(t)
	for _, row := range []struct {
		tools      []string
		want, asks string
	}{
		{[]string{"read_file", "ask:run_command", "method:resources/read"}, "read_file,run_command", "run_command"},
		{[]string{"run_command", "ask:run_command", "read_file"}, "run_command,read_file", "run_command"},
		{[]string{"*", "ask:run_command"}, "*", "run_command"},
		{[]string{"ask:*"}, "*", "*"},
		{[]string{"method:resources/read"}, "", ""},
		{[]string{" read_file ", "ask:user%2Fupdate"}, "read_file,user%2Fupdate", "user%2Fupdate"},
	} {
		c := config()
		c.Tokens[0].Tools = row.tools
		s := &seen{}
		do(start(t, c, s), post("/mcp/mcp", called("tools/list", "{}")))
		tools := s.request.Header["X-Sallyport-Tools"]
		asks := s.request.Header["X-Sallyport-Ask"]
		if len(tools) != 1 || tools[0] != row.want || (asks != nil) != (row.asks != "") || strings.Join(asks,
			";") != row.asks {
			t.Errorf("%q: tools %q, ask %q", row.tools, tools, asks)
		}
	}
}

// Each request has an id of its own, in the backend's request and in the log, and
// none that a client chose. A foreign backend is told nothing.
func TestRequestID(t *testing.T) {
	log := logged(t)
	ids := map[string]bool{}
	for _, backend := range []string{"sandbox", "hub", "other"} {
		c := config()
		c.Backend = backend
		c.Tokens[0].Tools = []string{"*"}
		s := &seen{}
		h := start(t, c, s)
		for i := 0; i < 3; i++ {
			r := post("/mcp/mcp", readFile)
			r.Header["X-Sallyport-Request"] = []string{"chosen"}
			do(h, r)
			got := s.request.Header["X-Sallyport-Request"]
			if backend == "other" {
				if got != nil {
					t.Errorf("a foreign backend sees %q", got)
				}
				continue
			}
			if len(got) != 1 || ids[got[0]] || len(got[0]) < 17 || !strings.Contains(log.String(),
				`"request":"`+got[0]+`"`) {
				t.Errorf("%s: id %q", backend, got)
			}
			ids[got[0]] = true
		}
	}
}

// A call that waits for the owner is counted as a stream, where it can be seen.
func TestAskingCallsAreStreams(t *testing.T) {
	logged(t)
	for _, row := range []struct {
		backend      string
		tools        []string
		path, tool   string
		streams      int // how many streams there is room for
		pass, stream bool
	}{
		{"sandbox", []string{"ask:run_command"}, "/mcp/mcp", "run_command", 1, true, true},
		{"sandbox", []string{"*", "ask:run_command"}, "/mcp/mcp", "run_command", 1, true, true},
		{"sandbox", []string{"ask:run_command", "read_file"}, "/mcp/mcp", "read_file", 1, true, false},
		{"sandbox", []string{"ask:*"}, "/mcp/mcp", "read_file", 1, true, true},
		{"sandbox", []string{"run_command"}, "/mcp/mcp", "run_command", 1, true, false},
		{"hub", []string{"git/*", "ask:git/push"}, "/mcp/servers/git/mcp", "push", 1, true, true},
		{"hub", []string{"git/*", "ask:git/push"}, "/mcp/servers/git/mcp", "log", 1, true, false},
		{"hub", []string{"*", "ask:git/push"}, "/mcp/servers/git/mcp", "push", 1, true, true},
		{"hub", []string{"*", "ask:git/push"}, "/mcp/servers/files/mcp", "push", 1, true, false},
		{"hub", []string{"ask:git/push"}, "/mcp/hub/mcp", "call_tool", 1, true, true},
		{"hub", []string{"ask:git/push"}, "/mcp/hub/mcp", "list_tools", 1, true, false},
	} {
		c := config()
		c.Backend = row.backend
		c.Tokens[0].Tools = row.tools
		c.Tokens[0].MaxStreams = row.streams
		c.Tokens[0].MaxConcurrent = 1
		passed := false
		stream := false
		var h http.Handler
		next := func(rw http.ResponseWriter, r *http.Request) {
			passed = true
			usageMu.Lock()
			stream = h.(*edge).tokens[0].who.usage.open[streams].Load() == 1 && h.(*edge).tokens[0].who.usage.open[calls].Load() == 0
			usageMu.Unlock()
		}
		h = start(t, c, http.HandlerFunc(next))
		do(h, post(row.path, named(row.tool)))
		if passed != row.pass || stream != row.stream {
			t.Errorf("%q on %s: passed %v, as a stream %v", row.tools, row.path, passed, stream)
		}
	}
}

func TestDefaultLimits(t *testing.T) {
	logged(t)
	l := start(t, config(), &seen{}).(*edge).tokens[0].who.limits
	if l.each != int64(1e8) || l.open[calls] != 48 || l.open[streams] != 64 {
		t.Errorf("limits %+v", l)
	}
}
