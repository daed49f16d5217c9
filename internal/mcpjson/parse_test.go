package mcpjson_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

const pinned = "registry.example/scraper@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// one parses a file with the single entry "s".
func one(t *testing.T, entry string) (*mcpjson.Entry, error) {
	t.Helper()
	c, err := mcpjson.Parse([]byte(`{"mcpServers": {"s": ` + entry + `}}`))
	if err != nil {
		t.Fatalf("the file is refused, not the entry: %v", err)
	}
	return c.Servers["s"], c.Broken["s"]
}

func mustOne(t *testing.T, entry string) *mcpjson.Entry {
	t.Helper()
	e, err := one(t, entry)
	if err != nil {
		t.Fatalf("%s\nis refused: %v", entry, err)
	}
	return e
}

func TestDockerDefaults(t *testing.T) {
	e := mustOne(t, `{"type": "docker", "image": "`+pinned+`"}`)
	want := mcpjson.DockerOptions{Image: pinned, Pull: "never", Network: "none", Memory: 512 << 20, PidsLimit: 256,
		NanoCPUs: 1e9, ReadOnly: true, Tmpfs: map[string]string{"/tmp": "rw,noexec,nosuid,nodev,mode=1777"}}
	if !reflect.DeepEqual(e.Container, want) {
		t.Errorf("got  %+v\nwant %+v", e.Container, want)
	}
	if !e.Hub || e.KeepAlive || e.IdleMinutes != 0 || e.TimeoutMS != 0 || len(e.Warnings) != 0 {
		t.Errorf("common fields: %+v", e)
	}
}

func TestDockerEveryField(t *testing.T) {
	e := mustOne(t, `{
		"type": "docker", "image": "`+pinned+`", "pull": "missing",
		"command": ["python3", "-m", "scraper_mcp"], "entrypoint": ["/init"],
		"env": {"HOME": "/data", "KEY": "${KEY}"}, "secretsFrom": "scraper",
		"volumes": ["/srv/./scraper/data:/data", "cache:/cache:ro"],
		"ports": ["8686:8000", "192.0.2.1:53:53/udp", "[::1]:81:80"],
		"network": "scraper-net", "memory": "384m", "pidsLimit": 128, "cpus": 0.75,
		"readOnly": false, "tmpfs": ["/tmp:exec,size=64m", "/run/x"], "user": "1000:1000",
		"hub": false, "keepAlive": true, "idleMinutes": 5, "timeout": 60000}`)
	want := mcpjson.DockerOptions{Image: pinned, Pull: "missing", Command: []string{"python3", "-m", "scraper_mcp"},
		Entrypoint: []string{"/init"}, SecretsFrom: "scraper",
		Volumes: []mcpjson.Volume{{Source: "/srv/scraper/data", Target: "/data"}, {Source: "cache", Target: "/cache", ReadOnly: true}},
		Ports:   []mcpjson.Port{{"127.0.0.1", 8686, 8000, "tcp"}, {"192.0.2.1", 53, 53, "udp"}, {"::1", 81, 80, "tcp"}},
		Network: "scraper-net", Memory: 384 << 20, PidsLimit: 128, NanoCPUs: 75e7,
		Tmpfs: map[string]string{"/tmp": "rw,exec,nosuid,nodev,mode=1777,size=64m", "/run/x": "rw,noexec,nosuid,nodev,mode=1777"},
		User:  "1000:1000"}
	if !reflect.DeepEqual(e.Container, want) {
		t.Errorf("got  %+v\nwant %+v", e.Container, want)
	}
	if e.Hub || !e.KeepAlive || e.IdleMinutes != 5 || e.TimeoutMS != 60000 || e.Env["KEY"] != "${KEY}" {
		t.Errorf("common fields: %+v", e)
	}
	if len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "192.0.2.1") {
		t.Errorf("a port open to other machines must warn: %q", e.Warnings)
	}
}

// TestClaudeCodeFiles: what Claude Code writes must load as it is.
func TestClaudeCodeFiles(t *testing.T) {
	c, err := mcpjson.Parse([]byte(`{
		"mcpServers": {
			"airtable": {"command": "node", "args": ["server.js", "--key", "${KEY:-none}"], "env": {"AIRTABLE_API_KEY": "${KEY}"}},
			"typed":    {"type": "stdio", "command": "/usr/bin/server", "args": [], "env": {}},
			"sentry":   {"type": "http", "url": "${BASE:-https://mcp.sentry.dev}/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}},
			"newer":    {"type": "streamable-http", "url": "https://example.com/mcp", "timeout": 600000, "alwaysLoad": true},
			"asana":    {"type": "sse", "url": "https://mcp.asana.com/sse"}
		}
	}`))
	if err != nil || len(c.Broken) != 0 {
		t.Fatal(err, c.Broken)
	}
	for name, kind := range map[string]string{"airtable": mcpjson.Stdio, "typed": mcpjson.Stdio, "sentry": mcpjson.HTTP, "newer": mcpjson.HTTP, "asana": mcpjson.SSE} {
		if got := c.Servers[name].Type; got != kind {
			t.Errorf("%s is %s, want %s", name, got, kind)
		}
	}
}

// TestRefusedEntries: testdata/refused.tsv has an entry a line and what its
// error must say; the published schema is held against the same file.
func TestRefusedEntries(t *testing.T) {
	data, err := os.ReadFile("testdata/refused.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		entry, mistake, found := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if !found {
			t.Fatalf("not entry, tab, mistake: %s", line)
		}
		e, err := one(t, entry)
		if err == nil || e != nil {
			t.Errorf("%s\nis accepted", entry)
		} else if !strings.Contains(err.Error(), mistake) {
			t.Errorf("%s\nsays  %v\nwant  %s", entry, err, mistake)
		}
	}
}

func TestAllMistakesOfAnEntryAtOnce(t *testing.T) {
	_, err := one(t, `{"type": "docker", "pull": "always", "memory": "lots", "Privileged": true, "network": "host"}`)
	for _, want := range []string{"5 mistakes", "image: is missing", "pull:", "memory:", `"Privileged"`, "network:"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not named in: %v", want, err)
		}
	}
}

func TestForbiddenSources(t *testing.T) {
	entry := func(source string) string {
		return fmt.Sprintf(`{"type": "docker", "image": %q, "volumes": [%q]}`, pinned, source+":/data:ro")
	}
	for _, source := range []string{"/", "//", "/proc", "/proc/1", "/sys", "/dev/null", "/etc", "//etc", "/./etc", "/srv/../etc",
		"/etc/passwd", "/boot", "/root", "/root/.ssh", "/run", "/run/docker.sock", "/var/run/docker.sock", "/var/./run",
		"/var//run", "/var", "/var/lib", "/var/lib/docker", "/var/lib/docker/volumes"} {
		if _, err := one(t, entry(source)); err == nil || !strings.Contains(err.Error(), "never allowed") {
			t.Errorf("%s: %v", source, err)
		}
	}
	for _, source := range []string{"/srv", "/srv/etc", "/home/me", "/etcetera", "/var/lib/dockerish", "/var/log", "/runway"} {
		mustOne(t, entry(source))
	}
}

// TestWritableParent: whoever may write /srv/a could replace /srv/a/b by a
// symlink before the other container starts.
func TestWritableParent(t *testing.T) {
	parse := func(outer string) *mcpjson.Config {
		c, err := mcpjson.Parse([]byte(fmt.Sprintf(`{"mcpServers": {
			"outer": {"type": "docker", "image": %q, "volumes": [%q]},
			"inner": {"type": "docker", "image": %q, "volumes": ["/srv/a/b:/x:ro"]}}}`, pinned, outer, pinned)))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := parse("/srv/a:/data"); c.Broken["outer"] == nil || c.Servers["inner"] == nil {
		t.Errorf("a writable parent: broken %v", c.Broken)
	}
	for _, ok := range []string{"/srv/a:/data:ro", "/srv/a/b:/data", "/srv/ab:/data", "vol:/data"} {
		if c := parse(ok); len(c.Broken) != 0 {
			t.Errorf("%s: %v", ok, c.Broken)
		}
	}
}

func TestBrokenFiles(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	for _, test := range []struct{ file, mistake string }{
		{``, "unexpected end"},
		{`{"mcpServers": {`, "unexpected end"},
		{"{\n  \"mcpServers\": {},\n}", "line 3, column 1"},
		{`[]`, "must be an object"},
		{`{}`, `"mcpServers" is missing`},
		{`{"mcpServers": []}`, "must be an object that maps"},
		{`{"mcpservers": {}}`, `it is spelled "mcpServers"`},
		{`{"mcpServers": {}, "mcpServers": {}}`, "more than once"},
		{`{"mcpServers": {}} {}`, "after top-level value"},
		{`{"mcpServers": {}, "other": 1}`, "not a known field"},
		{"{\"mcpServers\": {\"\xff\": {}}}", "not valid UTF-8"},
		{`{"mcpServers": {"s": {"command": "a\u0000b"}}}`, "NUL"},
		{`{"mcpServers": {"s": {"command": "\ud800"}}}`, "surrogate"},
		{`{"mcpServers": {"s": {"args": ` + deep + `}}}`, "nested deeper"},
		{strings.Repeat(" ", mcpjson.MaxFile+1), "larger than"},
	} {
		if _, err := mcpjson.Parse([]byte(test.file)); err == nil || !strings.Contains(err.Error(), test.mistake) {
			t.Errorf("%.60s: %v, want %s", test.file, err, test.mistake)
		}
	}
}

// TestOneBrokenEntry: the others stay.
func TestOneBrokenEntry(t *testing.T) {
	c, err := mcpjson.Parse([]byte(`{"$schema": "x", "mcpServers": {
		"good": {"command": "x"}, "bad": {"command": 5}, "twice": {"command": "x"}, "twice": {"command": "y"}, "a.b": {"command": "x"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Servers) != 1 || c.Servers["good"] == nil {
		t.Errorf("servers: %v", c.Servers)
	}
	for name, want := range map[string]string{"bad": "command", "twice": "more than one", "a.b": "letters, digits"} {
		if err := c.Broken[name]; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHash(t *testing.T) {
	a := mustOne(t, `{"type": "docker", "image": "x", "env": {"A": "1", "B": "2"}}`)
	b := mustOne(t, `{ "env": {"B":"2","A":"1"}, "image": "x",  "type": "docker"}`)
	c := mustOne(t, `{"type": "docker", "image": "x", "env": {"A": "1", "B": "3"}}`)
	if a.Hash != b.Hash || a.Hash == c.Hash || len(a.Hash) != 64 {
		t.Errorf("hashes %s %s %s", a.Hash, b.Hash, c.Hash)
	}
}

func TestExpand(t *testing.T) {
	variables := map[string]string{"KEY": "k", "EMPTY": "", "NEXT": "${KEY}"}
	lookup := func(name string) (string, bool) { v, ok := variables[name]; return v, ok }
	e := mustOne(t, `{"command": "${KEY}", "args": ["a${KEY}b${EMPTY:-x}", "$KEY $$", "${NO:-de:-f}", "${NEXT}"], "env": {"E": "${NO:-}"}}`)
	x, err := e.Expand(lookup)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := json.Marshal([]any{x.Command, x.Args, x.Env}); string(got) != `["k",["akb","$KEY $$","de:-f","${KEY}"],{"E":""}]` {
		t.Errorf("expanded: %s", got)
	}
	if e.Command != "${KEY}" || e.Args[0] == x.Args[0] || e.Env["E"] == "" {
		t.Error("Expand changed the entry itself")
	}
	e = mustOne(t, `{"type": "http", "url": "https://${HOST}/", "headers": {"A": "${TOKEN}", "B": "${KEY}"}}`)
	_, err = e.Expand(lookup)
	for _, want := range []string{"HOST", "TOKEN"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named in: %v", want, err)
		}
	}
	variables["HOST"], variables["TOKEN"] = "h/#x", "secret-value\r\nX: y"
	if _, err = e.Expand(lookup); err == nil || strings.Contains(err.Error(), "secret-value") || !strings.Contains(err.Error(), "one line") {
		t.Errorf("what only shows after expansion: %v", err)
	}
}
