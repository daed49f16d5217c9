package container_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

const pinned = "registry.example/scraper@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// mustOne parses an mcp.json with the single entry "s".
func mustOne(t *testing.T, entry string) *mcpjson.Entry {
	t.Helper()
	c, err := mcpjson.Parse([]byte(`{"mcpServers": {"s": ` + entry + `}}`))
	if err != nil || c.Broken["s"] != nil {
		t.Fatalf("%s\nis refused: %v, %v", entry, err, c.Broken["s"])
	}
	return c.Servers["s"]
}

// derive returns the body as the daemon reads it.
func derive(t *testing.T, e *mcpjson.Entry, image container.Image) map[string]any {
	t.Helper()
	env := map[string]string{}
	for key := range e.Env {
		env[key] = "value"
	}
	body, err := container.Derive(e, image, container.DefaultInstance, env, map[string]string{"SECRET": "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// checkBody holds what must be true of every container, whatever its entry.
func checkBody(t *testing.T, e *mcpjson.Entry) {
	t.Helper()
	body, err := container.Derive(e, container.Image{ID: "sha256:x"}, "i", e.Env, nil)
	if err != nil {
		t.Fatalf("%+v: %v", e.Container, err)
	}
	data, _ := json.Marshal(body)
	var c struct {
		User                      string
		OpenStdin, StdinOnce, Tty bool
		HostConfig                struct {
			Privileged, AutoRemove, PublishAllPorts bool
			CapAdd, CapDrop, SecurityOpt, Binds     []string
			NetworkMode, PidMode, IpcMode           string
			Memory, MemorySwap, PidsLimit, NanoCpus int64
			Mounts                                  []struct{ Type, Source, Target string }
			Tmpfs                                   map[string]string
			RestartPolicy                           struct{ Name string }
		}
	}
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	h := c.HostConfig
	switch {
	case h.Privileged, h.PublishAllPorts, !h.AutoRemove, c.Tty, !c.OpenStdin, !c.StdinOnce, len(h.CapAdd)+len(h.Binds) > 0,
		!slices.Equal(h.CapDrop, []string{"ALL"}), !slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}),
		h.NetworkMode == "host", strings.Contains(h.NetworkMode, ":"), h.PidMode != "", h.IpcMode != "private",
		h.Memory <= 0, h.MemorySwap != h.Memory, h.PidsLimit <= 0, h.NanoCpus <= 0, h.RestartPolicy.Name != "no",
		c.User == "", c.User == "0", c.User == "root":
		t.Fatalf("a restriction is missing: %s", data)
	}
	for _, m := range h.Mounts {
		if m.Type == "bind" && (filepath.Clean(m.Source) != m.Source || m.Source == "/" || strings.HasPrefix(m.Source, "/etc/")) {
			t.Fatalf("source %q", m.Source)
		}
	}
	for target, options := range h.Tmpfs {
		if !strings.Contains(options, "nosuid,nodev") || strings.Contains(","+options+",", ",suid,") || strings.Contains(","+options+",", ",dev,") {
			t.Fatalf("tmpfs %s: %s", target, options)
		}
	}
}

func TestContainerGolden(t *testing.T) {
	e := mustOne(t, `{
		"type": "docker", "image": "`+pinned+`", "command": ["serve"], "env": {"HOME": "/data"}, "secretsFrom": "scraper",
		"volumes": ["/srv/scraper/data:/data", "cache:/cache:ro"], "ports": ["127.0.0.1:8686:8000"],
		"network": "scraper-net", "memory": "384m", "pidsLimit": 128, "cpus": 0.75}`)
	image := container.Image{ID: "sha256:" + strings.Repeat("ab", 32), Entrypoint: []string{"/entry"}, Cmd: []string{"default"},
		Env: []string{"PATH=/bin", "LD_PRELOAD=/evil.so"}, Volumes: map[string]struct{}{"/var/cache": {}, "/data": {}, "/tmp/": {}},
		Labels: map[string]string{"traefik.enable": "true", "com.docker.compose.project": "x", "dev.sallyport.owner": "forged"}}
	got, _ := json.MarshalIndent(derive(t, e, image), "", "  ")
	want, err := os.ReadFile("testdata/create.json")
	if err != nil || string(want) != string(got)+"\n" {
		if os.Getenv("UPDATE_GOLDEN") != "" {
			os.MkdirAll("testdata", 0o755)
			os.WriteFile("testdata/create.json", append(got, '\n'), 0o644)
		}
		t.Errorf("the create request is not testdata/create.json (UPDATE_GOLDEN=1 writes it): %v\n%s", err, got)
	}
}

func TestImageDecidesOnlyTheProgram(t *testing.T) {
	plain := `{"type": "docker", "image": "` + pinned + `"`
	image := container.Image{ID: "sha256:x", Entrypoint: []string{"/entry"}, Cmd: []string{"default"}}
	for _, test := range []struct{ entry, entrypoint, command string }{
		{plain + `}`, `["/entry"]`, `["default"]`},
		{plain + `, "command": ["x"]}`, `["/entry"]`, `["x"]`},
		{plain + `, "command": []}`, `["/entry"]`, `[]`},
		{plain + `, "entrypoint": ["/e"]}`, `["/e"]`, `[]`},
		{plain + `, "entrypoint": ["/e"], "command": ["x"]}`, `["/e"]`, `["x"]`},
	} {
		body := derive(t, mustOne(t, test.entry), image)
		entrypoint, _ := json.Marshal(body["Entrypoint"])
		command, _ := json.Marshal(body["Cmd"])
		if string(entrypoint) != test.entrypoint || string(command) != test.command {
			t.Errorf("%s: %s %s", test.entry, entrypoint, command)
		}
	}
}

func TestUserOfTheImage(t *testing.T) {
	entry := `{"type": "docker", "image": "` + pinned + `"`
	for _, test := range []struct{ entry, image, want string }{
		{entry + `}`, "", "65532:65532"},
		{entry + `}`, "node", "node"},
		{entry + `}`, "1000:1000", "1000:1000"},
		{entry + `}`, "1000", "1000:1000"}, // Docker would make that 1000:0
		{entry + `}`, "1000:100", "1000:100"},
		{entry + `, "user": "1000"}`, "node", "1000:1000"},
		{entry + `}`, "root", ""},
		{entry + `}`, "0", ""},
		{entry + `}`, "00:0", ""},
		{entry + `}`, "1000:0", ""},
		{entry + `, "user": "7:7"}`, "root", "7:7"},
	} {
		body, err := container.Derive(mustOne(t, test.entry), container.Image{User: test.image}, "i", nil, nil)
		switch {
		case test.want == "" && (err == nil || !strings.Contains(err.Error(), "root is refused")):
			t.Errorf("image user %q: %v", test.image, err)
		case test.want != "" && (err != nil || body["User"] != test.want):
			t.Errorf("image user %q: %v %v", test.image, err, body["User"])
		}
	}
}

func TestImageVolumesThatCannotBeCovered(t *testing.T) {
	for _, target := range []string{"/", "", "data", "/proc/x", "/../.."} {
		image := container.Image{Volumes: map[string]struct{}{target: {}}}
		if _, err := container.Derive(mustOne(t, `{"type": "docker", "image": "x"}`), image, "i", nil, nil); err == nil {
			t.Errorf("volume %q is accepted", target)
		}
	}
}

func TestContainerName(t *testing.T) {
	if a, b := container.Name("s", "sallyport"), container.Name("s", "test1"); a != "mcp-sandbox-s" || b != "mcp-sandbox-s.test1" {
		t.Error(a, b)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"s": {"type": "docker", "image": "x", "volumes": ["/srv:/x"], "ports": ["1:2"], "tmpfs": ["/a:exec"]}}}`))
	f.Add([]byte(`{"mcpServers": {"s": {"command": "x", "args": ["${A:-b}"]}, "t": {"type": "http", "url": "https://x"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := mcpjson.Parse(data)
		if err != nil {
			return
		}
		for name, e := range c.Servers {
			if c.Broken[name] != nil {
				t.Fatalf("%s is both good and broken", name)
			}
			if e.Type == mcpjson.Docker {
				checkBody(t, e)
			}
		}
	})
}
