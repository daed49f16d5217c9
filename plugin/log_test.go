package plugin

import (
	"encoding/json"
	"expvar"
	"net/http"
	"strings"
	"testing"
)

// Every decision is one line of JSON, and one count.
func TestAuditAndCounters(t *testing.T) {
	log := logged(t)
	h := start(t, config(), &seen{})
	count := func(verdict string) int64 {
		n, ok := expvar.Get("sallyport").(*expvar.Map).Get(verdict).(*expvar.Int)
		if !ok {
			return 0
		}
		return n.Value()
	}
	rows := []struct {
		verdict string
		change  func(*http.Request)
		want    map[string]interface{}
	}{
		{"allowed", func(*http.Request) {}, map[string]interface{}{"principal": "token:poke", "http": "POST", "method": "tools/call", "tool": "read_file", "status": 200.0, "client": nil}},
		{"tool", payload(named("rm_all")), map[string]interface{}{"principal": "token:poke", "tool": "rm_all", "status": 200.0}},
		{"unauthorized", header("Authorization"), map[string]interface{}{"principal": nil, "method": nil, "status": 401.0, "client": "192.0.2.1:1234"}},
		{"path", func(r *http.Request) { r.URL.Path = "/other" }, map[string]interface{}{"status": 404.0}},
		{"http_method", method("PUT"), map[string]interface{}{"http": "PUT", "status": 405.0}},
		{"json_rpc", payload(`{"jsonrpc":"2.0"}`), map[string]interface{}{"status": 400.0}},
		{"tool", payload(named(strings.Repeat("x", 5000))), map[string]interface{}{"tool": strings.Repeat("x", 128) + "…"}},
		{"tool", payload(named("日本")), map[string]interface{}{"tool": "日本"}},
		{"tool", payload(named("x\u009b2J\u202e")), map[string]interface{}{"tool": `"x\u009b2J\u202e"`}},
		{"tool", payload(named("rm א/../ב")), map[string]interface{}{"tool": `"rm \u05d0/../\u05d1"`}},
		{"tool", payload(named("x\u3164\ufe0f\U000e0101")), map[string]interface{}{"tool": `"x\u3164\ufe0f\U000e0101"`}},
	}
	for i := range rows {
		row := rows[i]
		before := count(row.verdict)
		skip := len(log.String())
		r := post("/mcp/mcp", readFile)
		row.change(r)
		do(h, r)
		text := log.String()[skip:]
		var line map[string]interface{}
		if err := json.Unmarshal([]byte(text), &line); err != nil || strings.Count(text, "\n") != 1 {
			t.Errorf("%s: not one line of JSON: %s", row.verdict, text)
			continue
		}
		if line["verdict"] != row.verdict || line["middleware"] != t.Name() || line["ms"] == nil || count(row.verdict) != before+1 {
			t.Errorf("%s: counted %d times, %s", row.verdict, count(row.verdict)-before, text)
		}
		for key, want := range row.want {
			if line[key] != want {
				t.Errorf("%s: %s is %v, want %v", row.verdict, key, line[key], want)
			}
		}
	}
}

func TestLogLevelAndAuditOff(t *testing.T) {
	log := logged(t)
	c := config()
	c.AuditLog = false
	c.LogLevel = "error"
	h := start(t, c, &seen{})
	do(h, post("/mcp/mcp", readFile))
	r := post("/sse", readFile)
	r.Header.Set("X-Forwarded-Prefix", "/mcp") // a warning
	do(h, r)
	if log.String() != "" {
		t.Errorf("with everything off it logs %s", log.String())
	}
	c.LogLevel = "warn"
	start(t, c, &seen{})
	if !strings.Contains(log.String(), "a literal secret") {
		t.Errorf("no warning about a literal secret: %s", log.String())
	}
}
