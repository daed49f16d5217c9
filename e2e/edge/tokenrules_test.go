package edge

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// A token's rules of egress, its grants of any name and what it asks about reach a
// backend of ours as they are written, whatever the client sends in their place;
// nothing of it reaches a foreign one.
func TestTokenHeaders(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		s := newStand(t, fast)
		_, backendFile := rig.NewToken(t)
		token, clientFile := rig.NewToken(t)
		const tools = `tools: ["user%2Fupdate", "Create%20CIFS%20Share", "%C3%BCbung", "ask:run_command"], egress: ["API.example.com", "*.example.org:8443", "http://deb.example"]`
		ours := strings.Replace(s.dynamic(clientFile, backendFile, ""), "tools: [read_file]", tools, 1)
		foreign := strings.NewReplacer("backend: sandbox", "backend: other", `, "ask:run_command"`, "").Replace(ours)
		foreign = strings.Replace(foreign,
			`, egress: ["API.example.com", "*.example.org:8443", "http://deb.example"]`, "", 1)
		want := map[string]string{"Principal": "token:poke",
			"Tools": "user%2Fupdate,Create%20CIFS%20Share,%C3%BCbung,run_command",
			"Ask":   "run_command", "Egress": "api.example.com,*.example.org:8443,http://deb.example"}
		for backend, yaml := range map[string]string{"sandbox": ours, "other": foreign} {
			s.SetDynamic(t, yaml)
			for _, name := range []string{"user/update", "Create CIFS Share", "übung"} {
				s.backend.take()
				a := wire{method: "POST", target: "/mcp/mcp", header: [][2]string{{"Authorization",
					"Bearer " + token}, {"Content-Type", "application/json"},
					{"X-Sallyport-Egress", "*"}, {"X-Sallyport-Ask", "x"}, {"X-Sallyport-Request", "mine"}},
					body: tool(name)}.http1(t, s.Web)
				seen := s.backend.take()
				if a.status != 200 || len(seen) != 1 {
					t.Fatalf("%s, %s: %d %s", backend, name, a.status, a.body)
				}
				for header, value := range want {
					got := strings.Join(seen[0].header.Values("X-Sallyport-"+header), ";")
					if backend == "other" {
						value = ""
					}
					if got != value {
						t.Errorf("%s: %s is %q, want %q", backend, header, got, value)
					}
				}
				if id := seen[0].header.Values("X-Sallyport-Request"); (backend == "other") != (id == nil) ||
					strings.Join(id, "") == "mine" {
					t.Errorf("%s: request id %q", backend, id)
				}
			}
			if a, seen := s.send(t, token, "/mcp/mcp", tool("user%2Fupdate")); seen != nil ||
				!strings.Contains(a.body, "is not granted") {
				t.Errorf("%s: a name as it is encoded: %d %s", backend, a.status, a.body)
			}
		}
	})
}

// A call that waits for the owner takes the place of a stream; its twin, which
// does not, finds one among the calls.
func TestAskingCallsTakeAStream(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		open := make(chan struct{}, 1)
		s := newStandFor(t, fast, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != "GET" {
				io.WriteString(w, "{}")
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			open <- struct{}{}
			<-r.Context().Done()
		})
		_, backendFile := rig.NewToken(t)
		token, clientFile := rig.NewToken(t)
		s.SetDynamic(t, strings.NewReplacer("tools: [read_file]", `tools: [read_file, "ask:run_command"]`,
			"maxStreams: 1000", "maxStreams: 1").
			Replace(s.dynamic(clientFile, backendFile, "")))
		if a, _ := s.send(t, token, "/mcp/mcp", tool("run_command")); a.status != 200 {
			t.Fatalf("with room: %d %s", a.status, a.body)
		}
		client := rig.HTTPClient(token)
		resp, err := client.Get(s.Web + "/mcp/mcp")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		<-open
		if a, _ := s.send(t, token, "/mcp/mcp", tool("run_command")); a.status != 429 ||
			a.header.Get("Retry-After") == "" {
			t.Errorf("an asking call without room: %d %s", a.status, a.body)
		}
		if a, _ := s.send(t, token, "/mcp/mcp", readFile); a.status != 200 {
			t.Errorf("twin: %d %s", a.status, a.body)
		}
	})
}
