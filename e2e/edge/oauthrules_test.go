package edge

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// guard gives the stand this oauth section.
func (s *stand) guard(t *testing.T, settings string) {
	t.Helper()
	_, backendFile := rig.NewToken(t)
	_, clientFile := rig.NewToken(t)
	s.SetDynamic(t, s.dynamic(clientFile, backendFile, settings))
}

// send posts a body with a token, and returns what the backend saw of it.
func (s *stand) send(t *testing.T, token, path, body string) (answer, http.Header) {
	t.Helper()
	s.backend.take()
	a := wire{method: "POST", target: path, header: [][2]string{{"Authorization", "Bearer " + token}, {"Content-Type",
		"application/json"}}, body: body}.http1(t, s.Web)
	if seen := s.backend.take(); len(seen) == 1 {
		return a, seen[0].header
	}
	return a, nil
}

// Who has an account at the issuer comes in only where the owner has listed them;
// the twin is the same token with the list that has it.
func TestOnlyListedPrincipals(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		s, i := newStand(t, fast), newIssuer(t, "k")
		tool := i.plain(map[string]any{"email": "self.registered@example.net"})
		s.guard(t, i.oauth(`principalClaim: email, tools: [read_file, run_command], principals: {"me@example.net": [read_file]}`))
		if a, seen := s.send(t, tool, "/mcp/mcp", readFile); a.status != 403 || seen != nil ||
			!strings.Contains(a.body, "is not listed in oauth.principals") {
			t.Errorf("a self-registered user: %d %s", a.status, a.body)
		}
		me := i.plain(map[string]any{"email": "me@example.net"})
		if a, seen := s.send(t, me, "/mcp/mcp", readFile); a.status != 200 ||
			seen.Get("X-Sallyport-Tools") != "read_file" ||
			seen.Get("X-Sallyport-Principal") != "oauth:me@example.net" {
			t.Errorf("the listed one: %d %s %v", a.status, a.body, seen)
		}
		// Names are compared as they are written: Auth0's and others' have capitals and bars.
		s.guard(t, i.oauth(`tools: [read_file], principals: {"auth0|aBcD": "read_file"}`))
		for sub, status := range map[string]int{"auth0|aBcD": 200, "auth0|abcd": 403} {
			if a, _ := s.send(t, i.plain(map[string]any{"sub": sub}), "/mcp/mcp", readFile); a.status != status {
				t.Errorf("%s: %d %s", sub, a.status, a.body)
			}
		}
		s.guard(t, i.oauth(`principalClaim: email, tools: [read_file], principals: {"self.registered@example.net": [read_file]}`))
		if a, _ := s.send(t, tool, "/mcp/mcp", readFile); a.status != 200 {
			t.Errorf("twin: %d %s", a.status, a.body)
		}
		// Without either way to say who may come in, the route is closed and the log says what to write.
		s.guard(t, i.oauth(`tools: [read_file]`))
		if a, _ := s.send(t, me, "/mcp/mcp", readFile); a.status != 503 || !strings.Contains(s.Log.String(),
			`as principals: {`) {
			t.Errorf("nobody is listed: %d %s", a.status, a.body)
		}
	})
}

// Clients compare the resource with the URL that they were given.
func TestResourceOfEachPath(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		s, i := newStand(t, fast), newIssuer(t, "k")
		s.guard(t, i.oauth(`audience: "https://node.example/mcp", tools: [read_file], principals: {owner: [read_file]}`))
		paths := []string{"/mcp/mcp", "/mcp/sse", "/mcp/servers/git/mcp", "/mcp/servers/files/mcp"}
		for _, path := range paths {
			challenge := wire{method: "GET", target: path}.http1(t, s.Web).header.Get("WWW-Authenticate")
			at := "/.well-known/oauth-protected-resource" + path
			if !strings.Contains(challenge, `resource_metadata="https://node.example`+at+`"`) {
				t.Errorf("%s: %s", path, challenge)
			}
			var doc struct{ Resource string }
			a := wire{method: "GET", target: at, header: [][2]string{{"X-Forwarded-Host", "evil.example"}, {"Origin",
				"https://page.example"}}}.http1(t, s.Web)
			if json.Unmarshal([]byte(a.body), &doc) != nil || doc.Resource != "https://node.example"+path {
				t.Errorf("%s: %d %s", at, a.status, a.body)
			}
			if a.header.Get("Access-Control-Allow-Origin") != "*" {
				t.Errorf("a page cannot read %s: %v", at, a.header)
			}
			a = wire{method: "OPTIONS", target: at, header: [][2]string{{"Origin", "https://page.example"},
				{"Access-Control-Request-Method", "GET"}, {"Access-Control-Request-Headers",
					"mcp-protocol-version"}}}.http1(t, s.Web)
			if a.status != 204 || a.header.Get("Access-Control-Allow-Headers") != "*" {
				t.Errorf("preflight of %s: %d %v", at, a.status, a.header)
			}
			for _, other := range paths {
				for _, slash := range []string{"", "/"} {
					token := i.plain(map[string]any{"aud": []string{"other", "https://node.example" + path + slash}})
					if a, _ := s.send(t, token, other, readFile); (a.status == 200) != (path == other) {
						t.Errorf("a token for %s%s at %s: %d", path, slash, other, a.status)
					}
				}
			}
			if a, _ := s.send(t, i.plain(map[string]any{"aud": "https://node.example/mcp"}), path,
				readFile); a.status != 200 {
				t.Errorf("a token for the base at %s: %d %s", path, a.status, a.body)
			}
		}
	})
}

// Audiences and scopes as the large issuers write them.
func TestIssuersOwnForms(t *testing.T) {
	s, i := newStand(t, false), newIssuer(t, "k")
	const guid = "11111111-2222-4333-8444-555555555555"
	for _, own := range []string{guid, "api://" + guid} {
		s.guard(t, i.oauth(fmt.Sprintf(`audience: %q, resource: "https://node.example/mcp/mcp", scopes: ["api://%s/mcp.use"], tools: [read_file], principals: {owner: [read_file]}`, own, guid)))
		for what, row := range map[string]struct {
			claims map[string]any
			status int
		}{
			"scp as a string":       {map[string]any{"scp": "a mcp.use"}, 200},
			"scope as an array":     {map[string]any{"scope": []string{"mcp.use"}}, 200},
			"permissions":           {map[string]any{"permissions": []string{"mcp.use"}}, 200},
			"the long form":         {map[string]any{"scope": "api://" + guid + "/mcp.use"}, 200},
			"another scope":         {map[string]any{"scp": "mcp.used"}, 403},
			"of another API":        {map[string]any{"scp": "api://other/mcp.use"}, 403},
			"audience of other API": {map[string]any{"scp": "mcp.use", "aud": "api://other"}, 401},
		} {
			claims := map[string]any{"aud": own}
			for k, v := range row.claims {
				claims[k] = v
			}
			if a, _ := s.send(t, i.plain(claims), "/mcp/mcp", readFile); a.status != row.status {
				t.Errorf("%s, %s: %d %s", own, what, a.status, a.body)
			}
		}
	}
}

// What is accepted is what the RFCs name; what the issuer signed for something
// else, or bound to a key, is not.
func TestKindsOfTokens(t *testing.T) {
	s := newStand(t, false)
	foreign := newIssuer(t, "k")
	for at, kid := range map[string]string{
		"/.well-known/oauth-authorization-server" + issuerPath: "",
		issuerPath + "/.well-known/openid-configuration":       "k",
	} {
		i := newIssuer(t, kid)
		i.at = at
		s.guard(t, i.oauth(`tools: [read_file], principals: {owner: [read_file]}`))
		for _, alg := range []string{"RS256", "RS384", "RS512", "PS256", "PS512", "ES256", "ES384", "ES512", "EdDSA",
			"Ed25519"} {
			for _, header := range []map[string]any{{"alg": alg}, {"alg": alg, "kid": "k", "typ": "at+jwt"},
				{"alg": alg, "typ": "application/at+jwt"}} {
				if a, _ := s.send(t, i.token(header, nil), "/mcp/mcp", readFile); a.status != 200 {
					t.Errorf("key id %q, %v: %d %s", kid, header, a.status, a.body)
				}
			}
		}
		for what, token := range map[string]string{
			"a logout token":      i.token(map[string]any{"alg": "ES256", "typ": "logout+jwt"}, nil),
			"a DPoP proof":        i.token(map[string]any{"alg": "ES256", "typ": "dpop+jwt"}, nil),
			"bound by DPoP":       i.plain(map[string]any{"cnf": map[string]string{"jkt": "x"}}),
			"bound by TLS":        i.plain(map[string]any{"cnf": map[string]string{"x5t#S256": "x"}}),
			"an ID token":         i.plain(map[string]any{"at_hash": "x"}),
			"key of another":      foreign.plain(map[string]any{"iss": i.url()}),
			"of another issuer":   i.plain(map[string]any{"iss": i.URL}),
			"issuer with a slash": i.plain(map[string]any{"iss": i.url() + "/"}),
		} {
			if a, seen := s.send(t, token, "/mcp/mcp", readFile); a.status != 401 || seen != nil ||
				!strings.Contains(a.header.Get("WWW-Authenticate"), "invalid_token") {
				t.Errorf("%s: %d %s", what, a.status, a.body)
			}
		}
	}
}

// Grants, rules of egress and the grant's id travel in the token, and only narrow.
func TestClaimsNarrow(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		s, i := newStand(t, fast), newIssuer(t, "k")
		revoked := filepath.Join(t.TempDir(), "revoked")
		put(t, revoked, "")
		s.guard(t, i.oauth(fmt.Sprintf(`tools: [read_file, "ask:run_command", "user%%2Fupdate"], toolsClaim: tools, egress: ["*.example.org", "http://deb.example"],
            egressClaim: egress, grantClaim: grant, revokedFile: %q, scopes: [mcp]`, revoked)))
		claims := func(tools, egress any) map[string]any {
			return map[string]any{"scope": "mcp", "grant": "Ab12", "tools": tools, "egress": egress}
		}
		a, seen := s.send(t, i.plain(claims([]string{"*"}, []string{"a.example.org", "http://deb.example",
			"evil.example"})), "/mcp/mcp", readFile)
		for name, want := range map[string]string{"Principal": "oauth:owner#Ab12",
			"Tools": "read_file,run_command,user%2Fupdate", "Ask": "run_command",
			"Egress": "a.example.org,http://deb.example"} {
			if got := seen.Values("X-Sallyport-" + name); len(got) != 1 || got[0] != want {
				t.Errorf("%s: %d %s: %q, want %q", name, a.status, a.body, got, want)
			}
		}
		id := seen.Get("X-Sallyport-Request")
		rig.Until(t, "the request's id in the log", func() bool {
			return id != "" && strings.Contains(s.Log.String(),
				`"request":"`+id+`"`)
		})
		if a, seen := s.send(t, i.plain(claims([]string{"user%2Fupdate"}, nil)), "/mcp/mcp",
			tool("user/update")); a.status != 200 || seen.Values("X-Sallyport-Egress") != nil {
			t.Errorf("without rules: %d %s %v", a.status, a.body, seen)
		}
		if a, seen := s.send(t, i.plain(claims([]string{"read_file"}, nil)), "/mcp/mcp",
			tool("run_command")); seen != nil || !strings.Contains(a.body, "is not granted") {
			t.Errorf("what was not ticked: %d %s", a.status, a.body)
		}
		for what, bad := range map[string]map[string]any{
			"no claim": claims(nil, nil), "nothing ticked": claims([]string{}, nil), "a string": claims("read_file",
				nil), "beyond the ceiling": claims([]string{"write_file"}, nil),
			"no scope": {"grant": "Ab12", "tools": []string{"read_file"}},
		} {
			if a, seen := s.send(t, i.plain(bad), "/mcp/mcp", readFile); a.status != 403 || seen != nil ||
				a.header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s: %d %s %v", what, a.status, a.body, a.header)
			}
		}
		token := i.plain(claims([]string{"read_file"}, nil))
		s.send(t, token, "/mcp/mcp", readFile)
		put(t, revoked, "Ab12\n")
		since := time.Now()
		for served := time.Duration(0); ; served = time.Since(since) {
			a, _ := s.send(t, token, "/mcp/mcp", readFile)
			if a.status == 401 && strings.Contains(a.header.Get("WWW-Authenticate"), "revoked") {
				break
			}
			if served > time.Second { // when the request began: how long it took is the machine's
				t.Fatalf("a revoked grant was served %v later", served)
			}
		}
		other := claims([]string{"read_file"}, nil)
		other["grant"] = "Cd34"
		if a, _ := s.send(t, i.plain(other), "/mcp/mcp", readFile); a.status != 200 {
			t.Errorf("another grant: %d %s", a.status, a.body)
		}
		if err := os.Remove(revoked); err != nil {
			t.Fatal(err)
		}
		rig.Until(t, "the missing list to be seen", func() bool {
			a, _ := s.send(t, i.plain(other), "/mcp/mcp", readFile)
			return a.status == 503
		})
	})
}

// put replaces a file at once.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// An open stream ends with the grant or the token that opened it, at the next
// write; its twin, whose grant stays, goes on.
func TestOpenStreamsEnd(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		i := newIssuer(t, "k")
		revoked := filepath.Join(t.TempDir(), "revoked")
		put(t, revoked, "")
		s := newStandFor(t, fast, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for n := 0; r.Context().Err() == nil; n++ {
				if _, err := fmt.Fprintf(w, ": %d\n\n", n); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		})
		s.guard(t, i.oauth(fmt.Sprintf(`tools: [read_file], principals: {owner: [read_file]}, grantClaim: grant, revokedFile: %q`, revoked)))
		open := func(method string, claims map[string]any) <-chan time.Time {
			r, err := http.NewRequest(method, s.Web+"/mcp/mcp",
				strings.NewReader(map[string]string{"POST": readFile}[method]))
			if err != nil {
				t.Fatal(err)
			}
			r.Header = http.Header{"Authorization": {"Bearer " + i.plain(claims)},
				"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			resp, err := http.DefaultTransport.RoundTrip(r)
			if err != nil || resp.StatusCode != 200 {
				t.Fatal(resp, err)
			}
			t.Cleanup(func() { resp.Body.Close() })
			ended := make(chan time.Time, 1)
			go func() {
				io.Copy(io.Discard, resp.Body)
				ended <- time.Now()
			}()
			return ended
		}
		gone := []<-chan time.Time{open("GET", map[string]any{"grant": "gone"}), open("POST",
			map[string]any{"grant": "gone"})}
		stays := open("GET", map[string]any{"grant": "stays"})
		expires := time.Now().Add(5 * time.Second) // with the leeway of a minute
		late := open("GET", map[string]any{"grant": "stays", "exp": expires.Unix() - 60})
		time.Sleep(100 * time.Millisecond) // some of the stream
		put(t, revoked, "gone\n")
		since := time.Now()
		for _, ended := range gone {
			select {
			case at := <-ended:
				if at.Sub(since) > 10*time.Second { // a busy machine's; the other one does not end at all
					t.Errorf("a revoked stream went on for %v", at.Sub(since))
				}
			case <-time.After(rig.Deadline):
				t.Fatal("a revoked stream goes on")
			}
		}
		select {
		case at := <-late:
			if at.Before(expires.Truncate(time.Second)) {
				t.Errorf("it ended %v before its token expired", expires.Sub(at))
			}
		case <-time.After(rig.Deadline):
			t.Fatal("a stream outlives its token")
		}
		select {
		case <-stays:
			t.Error("the other grant's stream ended too")
		default:
		}
	})
}
