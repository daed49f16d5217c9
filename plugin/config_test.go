package plugin

import (
	"context"
	"encoding/hex"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each row spoils one setting; the error must say which.
var mistakeRows = []struct {
	want  string
	spoil func(*Config)
}{
	{"backend is", func(c *Config) { c.Backend = "" }},
	{"backend is", func(c *Config) { c.Backend = "Sandbox" }},
	{"pathPrefix is", func(c *Config) { c.PathPrefix = "" }},
	{"pathPrefix is", func(c *Config) { c.PathPrefix = "mcp" }},
	{"pathPrefix is", func(c *Config) { c.PathPrefix = "/mcp/" }},
	{"pathPrefix is", func(c *Config) { c.PathPrefix = "//evil" }},
	{"pathPrefix is", func(c *Config) { c.PathPrefix = "/a/../b" }},
	{"pathPrefix is", func(c *Config) { c.PathPrefix = "/a%2fb" }},
	{"pathPrefix is", func(c *Config) { c.PathPrefix = "/a;b" }},
	{"backendPath is", func(c *Config) { c.BackendPath = "x" }},
	{"backendAuth is", func(c *Config) { c.BackendAuth = "" }},
	{"backendAuth is token: give", func(c *Config) { c.BackendToken = "" }},
	{"backendAuth is token: give", func(c *Config) { c.BackendTokenFile = "/x" }},
	{"backendAuth is none", func(c *Config) { c.BackendAuth = "none" }},
	{"backend token: the token must be at least 32", func(c *Config) { c.BackendToken = "short" }},
	{"backend token: is the same as token:poke", func(c *Config) { c.BackendToken = clientToken }},
	{"nobody could call", func(c *Config) { c.Tokens = nil }},
	{"tokens[0]: name is", func(c *Config) { c.Tokens[0].Name = "" }},
	{"tokens[0]: name is", func(c *Config) { c.Tokens[0].Name = "Poke" }},
	{"name is used twice", func(c *Config) { c.Tokens = append(c.Tokens, c.Tokens[0]) }},
	{"is the same token as token:poke", func(c *Config) {
		c.Tokens = append(c.Tokens, Token{Name: "b", Value: clientToken, Tools: []string{"x"}})
	}},
	{"exactly one of sha256", func(c *Config) { c.Tokens[0].Value = "" }},
	{"exactly one of sha256", func(c *Config) { c.Tokens[0].SHA256 = strings.Repeat("0", 64) }},
	{"sha256 is not", func(c *Config) { c.Tokens[0].Value = ""; c.Tokens[0].SHA256 = "abc" }},
	{"sha256 is not", func(c *Config) { c.Tokens[0].Value = ""; c.Tokens[0].SHA256 = ofNothing }},
	{"at least 32", func(c *Config) { c.Tokens[0].Value = "short" }},
	{"without spaces", func(c *Config) { c.Tokens[0].Value = "a token with spaces that is long enough" }},
	{"no such file", func(c *Config) { c.Tokens[0].Value = ""; c.Tokens[0].ValueFile = "/nowhere/token" }},
	{"not a regular file", func(c *Config) { c.Tokens[0].Value = ""; c.Tokens[0].ValueFile = "/dev/zero" }},
	{"not a regular file", func(c *Config) { c.Tokens[0].Value = ""; c.Tokens[0].ValueFile = "/" }},
	{"tools is empty", func(c *Config) { c.Tokens[0].Tools = nil }},
	{"which is not a grant", func(c *Config) { c.Tokens[0].Tools = []string{"read file"} }},
	{"which is not a grant", func(c *Config) { c.Tokens[0].Tools = []string{""} }},
	{"which is not a grant", func(c *Config) { c.Tokens[0].Tools = []string{"read*"} }},
	{"which is not a grant", func(c *Config) { c.Backend = "hub"; c.Tokens[0].Tools = []string{"*/read"} }},
	{"grants are server/tool", func(c *Config) { c.Tokens[0].Tools = []string{"files/read"} }},
	{"grants are server/tool", func(c *Config) { c.Backend = "hub" }},
	{"hold a call", func(c *Config) { c.Backend = "other"; c.Tokens[0].Tools = []string{"ask:read_file"} }},
	{"other than tools/call", func(c *Config) { c.Tokens[0].Tools = []string{"method:tools/call"} }},
	{"other than tools/call", func(c *Config) { c.Tokens[0].Tools = []string{"method:*"} }},
	{"which is not a grant", func(c *Config) { c.Tokens[0].Tools = []string{"ask:method:x"} }},
	{"private: belongs into EGRESS_ALLOW", func(c *Config) { c.Tokens[0].Egress = []string{"private:nas.home:443"} }},
	{`egress has "10.0.0.1"`, func(c *Config) { c.Tokens[0].Egress = []string{"ok.example", "10.0.0.1"} }},
	{`egress has "*.com"`, func(c *Config) { c.Tokens[0].Egress = []string{"*.com"} }},
	{"egress has more than 16 KiB of rules", func(c *Config) {
		c.Tokens[0].Egress = []string{}
		for len(c.Tokens[0].Egress) < 100 {
			c.Tokens[0].Egress = append(c.Tokens[0].Egress, strings.Repeat(strings.Repeat("a", 60)+".", 3)+"example")
		}
	}},
	{"egress has 257 rules", func(c *Config) { c.Tokens[0].Egress = make([]string, 257) }},
	{"egress is for backend: sandbox and hub", func(c *Config) {
		c.Backend = "other"
		c.Tokens[0].Egress = []string{"a.example"}
	}},
	{"written %2F", func(c *Config) { c.Tokens[0].Tools = []string{"user/update"} }},
	{"which is not a grant", func(c *Config) { c.Tokens[0].Tools = []string{"user%2"} }},
	{"which is not a grant", func(c *Config) { c.Tokens[0].Tools = []string{"user%zz"} }},
	{"percent-encoded, such as", func(c *Config) { c.Tokens[0].Tools = []string{"übung"} }},
	{"backendOrigins has", func(c *Config) { c.BackendOrigins = []string{"http://a.example/x"} }},
	{"never passes", func(c *Config) { c.RequestHeaders = []string{"authorization"} }},
	{"never passes", func(c *Config) { c.RequestHeaders = []string{"X-Sallyport-Tools"} }},
	{"never passes", func(c *Config) { c.RequestHeaders = []string{"X_Forwarded_User"} }},
	{"never passes", func(c *Config) { c.ResponseHeaders = []string{"Location"} }},
	{"never passes", func(c *Config) { c.ResponseHeaders = []string{"WWW-Authenticate"} }},
	{"is not dropped", func(c *Config) { c.RequestHeaders = []string{"X-Api-Key"} }},
	{"is not dropped", func(c *Config) { c.ResponseHeaders = []string{"Link"} }},
	{"expires is", func(c *Config) { c.Tokens[0].Expires = "soon" }},
	{"expires is", func(c *Config) { c.Tokens[0].Expires = "1027-06-30" }}, // in nanoseconds that is in 2196
	{"expires is", func(c *Config) { c.Tokens[0].Expires = "1500-01-01" }},
	{"must be positive", func(c *Config) { c.Tokens[0].MaxStreams = -1 }},
	{"allowedOrigins has", func(c *Config) { c.AllowedOrigins = []string{"*"} }},
	{"allowedOrigins has", func(c *Config) { c.AllowedOrigins = []string{"https://a.example/"} }},
	{"maxBodyBytes is", func(c *Config) { c.MaxBodyBytes = 0 }},
	{"maxBodyBytes is", func(c *Config) { c.MaxBodyBytes = -1 }},
	{"filterTools is for", func(c *Config) { c.FilterTools = true }},
	{"clientAddress is", func(c *Config) { c.ClientAddress = "x-real-ip" }},
	{"failuresPerMinute is", func(c *Config) { c.FailuresPerMinute = 0 }},
	{"logLevel is", func(c *Config) { c.LogLevel = "trace" }},
	{"auditlog2 is not a setting", func(c *Config) { c.Extra = map[string]interface{}{"auditlog2": "true"} }},
	{"toolz is not a setting", func(c *Config) { c.Tokens[0].Extra = map[string]interface{}{"toolz": "x"} }},
}

// ofNothing is what printf %s "$TOKEN" | sha256sum says without a TOKEN.
const ofNothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// Even where it stood in the table, no token is not a token.
func TestNoTokenIsNone(t *testing.T) {
	logged(t)
	s := &seen{}
	h := start(t, config(), s)
	sum, err := hex.DecodeString(ofNothing)
	if err != nil || match([][]byte{sum}, "") != 0 {
		t.Fatal("it is not the hash of nothing", err)
	}
	h.(*edge).table.Load().(*table).sums[0] = sum
	for _, values := range [][]string{nil, {""}, {"Bearer"}, {"Bearer "}, {"bearer  "}, {"Basic x"}, {"Bearer x", "Bearer x"}} {
		r := post("/mcp/mcp", readFile)
		r.Header["Authorization"] = values
		if values == nil {
			r.Header.Del("Authorization")
		}
		if rec := do(h, r); rec.Code != 401 || s.calls != 0 {
			t.Errorf("%q: status %d", values, rec.Code)
		}
	}
}

func TestMistakes(t *testing.T) {
	logged(t)
	for i := range append(mistakeRows, oauthMistakes...) {
		row := append(mistakeRows, oauthMistakes...)[i]
		c := config()
		row.spoil(c)
		h, err := New(context.Background(), &seen{}, c, "name")
		if err == nil || h != nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("want %q, got %v", row.want, err)
		}
		if err != nil && (strings.Contains(err.Error(), clientToken) || strings.Contains(err.Error(), serverToken)) {
			t.Errorf("the error shows a token: %v", err)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	_, err := New(context.Background(), &seen{}, &Config{Tokens: []Token{{}, {}}}, "edge@file")
	for _, want := range []string{"edge@file", "backend is", "pathPrefix is", "backendAuth is", "tokens[0]", "tokens[1]", "maxBodyBytes", "clientAddress", "failuresPerMinute", "logLevel", "tools is empty"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in %v", want, err)
		}
	}
}

func TestNewNeedsEverything(t *testing.T) {
	if _, err := New(context.Background(), &seen{}, nil, "x"); err == nil {
		t.Error("no configuration is accepted")
	}
	if _, err := New(context.Background(), nil, config(), "x"); err == nil {
		t.Error("no next handler is accepted")
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// later makes it time to read the files again, so that no test waits.
func later(h http.Handler) { readAt(h, 0) }

// readAt sets when the edge believes to have read its files.
func readAt(h http.Handler, nanoseconds int64) {
	e := h.(*edge)
	t := *e.table.Load().(*table)
	t.read = nanoseconds
	e.table.Store(&t)
}

func TestFilesAreReadAgain(t *testing.T) {
	log := logged(t)
	dir := t.TempDir()
	client := filepath.Join(dir, "client")
	backend := filepath.Join(dir, "backend")
	write(t, client, clientToken+"\n")
	write(t, backend, serverToken)
	c := config()
	c.BackendToken = ""
	c.BackendTokenFile = backend
	c.Tokens[0].Value = ""
	c.Tokens[0].ValueFile = client
	s := &seen{}
	h := start(t, c, s)
	steps := []struct {
		desc, client, backend string
		status                int
	}{
		{"unchanged", clientToken + "\n", serverToken, 200},
		{"rotated away", otherToken + "\n", serverToken, 401},
		{"rotated back", clientToken, serverToken, 200},
		{"too short", "short\n", serverToken, 401},
		{"two newlines", clientToken + "\n\n", serverToken, 401},
		{"carriage return", clientToken + "\r\n", serverToken, 401},
		{"fixed", clientToken, serverToken, 200},
		{"backend rotated", clientToken, serverToken + "2", 200},
		{"backend empty", clientToken, "", 503},
		{"backend has the client's", clientToken, clientToken, 503},
		{"all well", clientToken, serverToken, 200},
	}
	for i := range steps {
		write(t, client, steps[i].client)
		write(t, backend, steps[i].backend)
		later(h)
		if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != steps[i].status {
			t.Errorf("%s: status %d, want %d", steps[i].desc, rec.Code, steps[i].status)
		}
		if steps[i].status == 200 && s.request.Header.Get("Authorization") != "Bearer "+steps[i].backend {
			t.Errorf("%s: the backend got another token", steps[i].desc)
		}
	}
	if err := os.Remove(client); err != nil {
		t.Fatal(err)
	}
	later(h)
	if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 401 {
		t.Errorf("after the file is gone: status %d", rec.Code)
	}
	text := log.String()
	if !strings.Contains(text, "refused until its file is fixed") || strings.Contains(text, otherToken) || strings.Contains(text, serverToken) {
		t.Errorf("log: %s", text)
	}
}

// Between two checks the files are left alone.
func TestFilesAreNotReadAtEachRequest(t *testing.T) {
	logged(t)
	client := filepath.Join(t.TempDir(), "client")
	write(t, client, clientToken)
	c := config()
	c.Tokens[0].Value = ""
	c.Tokens[0].ValueFile = client
	h := start(t, c, &seen{})
	do(h, post("/mcp/mcp", readFile))
	h.(*edge).keep = math.MaxUint64
	write(t, client, otherToken)
	if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 200 {
		t.Errorf("status %d: the file was read before its time", rec.Code)
	}
	// Nor is a token that was withdrawn believed for as long as the clock was set back.
	h.(*edge).keep = uint64(secretInterval)
	readAt(h, time.Now().Add(time.Hour).UnixNano())
	if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 401 {
		t.Errorf("after the clock was set back: status %d", rec.Code)
	}
}

func TestExpires(t *testing.T) {
	logged(t)
	today := time.Now().UTC().Format("2006-01-02")
	for day, status := range map[string]int{"2020-01-01": 401, "2999-12-31": 200, today: 200} {
		c := config()
		c.Tokens[0].Expires = day
		rec := do(start(t, c, &seen{}), post("/mcp/mcp", readFile))
		if rec.Code != status && time.Now().UTC().Format("2006-01-02") == today {
			t.Errorf("expires %s: status %d, want %d", day, rec.Code, status)
		}
		if status == 401 && !strings.Contains(rec.Body.String(), "expired") {
			t.Errorf("the answer does not say why: %s", rec.Body.String())
		}
	}
}

// Only a hash is needed, and every token is compared, whichever matches.
func TestHashes(t *testing.T) {
	logged(t)
	c := config()
	c.Tokens = []Token{
		{Name: "first", Value: clientToken, Tools: []string{"read_file"}},
		{Name: "second", SHA256: "3cdaae1f2c38dfe7d1d04826122806d1436b25a4bf001b378524e22a8539046a", Tools: []string{"read_file"}},
		{Name: "third", Value: otherToken, Tools: []string{"read_file"}},
	}
	s := &seen{}
	h := start(t, c, s)
	for text, name := range map[string]string{clientToken: "first", "replace-this-token-with-your-own-one": "second", otherToken: "third"} {
		r := post("/mcp/mcp", readFile)
		r.Header.Set("Authorization", "Bearer "+text)
		if rec := do(h, r); rec.Code != 200 || s.request.Header.Get("X-Sallyport-Principal") != "token:"+name {
			t.Errorf("%s: status %d as %s", name, rec.Code, s.request.Header.Get("X-Sallyport-Principal"))
		}
	}
}
