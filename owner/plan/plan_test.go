package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

// inputs are the files of one run, changed by edits of the form old -> new.
type inputs struct{ compose, edge, servers string }

func good(t *testing.T) inputs {
	t.Helper()
	return inputs{load(t, "testdata/stack.json"), load(t, "../../traefik-dynamic.yml"), load(t, "testdata/mcp.json")}
}

func load(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// swap replaces old once and fails where it does not stand.
func swap(t *testing.T, s *string, old, new string) {
	t.Helper()
	if !strings.Contains(*s, old) {
		t.Fatalf("the input has no %q", old)
	}
	*s = strings.Replace(*s, old, new, 1)
}

type bench struct {
	dir string
	t   *testing.T
}

func newBench(t *testing.T) bench { return bench{t.TempDir(), t} }

func (b bench) run(in inputs, args ...string) (int, string) {
	b.t.Helper()
	for name, content := range map[string]string{"compose.json": in.compose, "edge.yml": in.edge, "mcp.json": in.servers} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(b.dir, name) }
	args = append(args, "-compose", at("compose.json"), "-edge", at("edge.yml"), "-servers", at("mcp.json"), "-accepted", at("plan.json"))
	var out, errs bytes.Buffer
	code := Main(b.t.Context(), args, &out, &errs)
	return code, out.String() + errs.String()
}

// service is one service of the rendered compose file, for edits.
func edit(t *testing.T, in *inputs, name string, change func(map[string]any)) {
	t.Helper()
	var file map[string]any
	if err := json.Unmarshal([]byte(in.compose), &file); err != nil {
		t.Fatal(err)
	}
	change(file["services"].(map[string]any)[name].(map[string]any))
	raw, err := json.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	in.compose = string(raw)
}

func TestGolden(t *testing.T) {
	dangerous := good(t)
	edit(t, &dangerous, "sandboxd", func(s map[string]any) {
		for _, key := range []string{"cap_drop", "security_opt", "read_only", "pids_limit", "mem_limit", "cpus", "user"} {
			delete(s, key)
		}
		s["volumes"] = []any{
			map[string]any{"type": "bind", "source": "/", "target": "/host"},
			map[string]any{"type": "bind", "source": "/var/run/docker.sock", "target": "/var/run/docker.sock", "read_only": true},
		}
		s["ports"] = []any{map[string]any{"published": "18080", "target": 8000, "protocol": "tcp"}}
		s["environment"] = map[string]any{"MCP_AUTH_TOKEN": "x", "MCP_JAIL": "group", "MCP_COMMAND_NETWORK": "container", "MCP_TOOLS": "all"}
		s["privileged"] = true
		s["pid"] = "host"
	})
	for name, in := range map[string]inputs{"stack": good(t), "dangerous": dangerous} {
		code, got := newBench(t).run(in)
		golden := "testdata/" + name + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want := load(t, golden); code != 0 || got != want {
			t.Errorf("%s: exit code %d, got\n%s\nwant\n%s", name, code, got, want)
		}
	}
}

func TestGrowthIsShown(t *testing.T) {
	set := func(service, key string, value any) func(*testing.T, *inputs) {
		return func(t *testing.T, in *inputs) {
			edit(t, in, service, func(s map[string]any) {
				if value == nil {
					delete(s, key)
				} else {
					s[key] = value
				}
			})
		}
	}
	env := func(name, value string) func(*testing.T, *inputs) {
		return func(t *testing.T, in *inputs) {
			edit(t, in, "sandboxd", func(s map[string]any) { s["environment"].(map[string]any)[name] = value })
		}
	}
	mount := func(source string, readOnly bool) func(*testing.T, *inputs) {
		return func(t *testing.T, in *inputs) {
			edit(t, in, "sandboxd", func(s map[string]any) {
				s["volumes"] = append(s["volumes"].([]any), map[string]any{"type": "bind", "source": source, "target": "/x", "read_only": readOnly})
			})
		}
	}
	edge := func(old, new string) func(*testing.T, *inputs) {
		return func(t *testing.T, in *inputs) { swap(t, &in.edge, old, new) }
	}
	server := func(old, new string) func(*testing.T, *inputs) {
		return func(t *testing.T, in *inputs) { swap(t, &in.servers, old, new) }
	}
	for want, change := range map[string]func(*testing.T, *inputs){
		"+ sandbox: change /home (bind, at /x)": mount("/home", false),
		"+ sandbox: change or read /srv/sallyport/.sallyport/edge, which edge mounts, by its own mount of /srv": mount("/srv", false),
		"+ sandbox: change or read /srv/sallyport/plugin, which edge mounts, by its own":                        mount("/srv/sallyport/plugin", false),
		"+ sandbox: swap /srv/sallyport/workspace/docs, which the container of server files":                    server("/srv/files:/data:ro", "/srv/sallyport/workspace/docs:/data:ro"),
		"+ sandbox: read /etc (bind, at /x)":                                                                    mount("/etc", true),
		"+ sandbox: control Docker, which is root":                                                              mount("/run/docker.sock", true),
		"+ sandbox: control this host: it is privileged":                                                        set("sandboxd", "privileged", true),
		"+ sandbox: act as root in its container":                                                               set("sandboxd", "user", "0:0"),
		"+ sandbox: use Docker's default capabilities":                                                          set("sandboxd", "cap_drop", nil),
		`+ sandbox: have cap_add = ["SYS_ADMIN"]`:                                                               set("sandboxd", "cap_add", []any{"SYS_ADMIN"}),
		"+ sandbox: gain rights by setuid programs":                                                             set("sandboxd", "security_opt", nil),
		"+ sandbox: run with security_opt seccomp=unconfined":                                                   set("sandboxd", "security_opt", []any{"no-new-privileges:true", "seccomp=unconfined"}),
		"+ sandbox: change its image's files":                                                                   set("sandboxd", "read_only", false),
		"+ sandbox: run processes at once: 4096":                                                                set("sandboxd", "pids_limit", 4096),
		"+ sandbox: use all memory":                                                                             set("sandboxd", "mem_limit", nil),
		"+ sandbox: use processors, in thousandths: 8000":                                                       set("sandboxd", "cpus", 8),
		"+ sandbox: use this host's network":                                                                    set("sandboxd", "network_mode", "host"),
		`+ sandbox: have pid = "host"`:                                                                          set("sandboxd", "pid", "host"),
		`+ sandbox: have devices = [{"source":"/dev/kvm"}]`:                                                     set("sandboxd", "devices", []any{map[string]any{"source": "/dev/kvm"}}),
		`+ sandbox: have unheard_of = "x"`:                                                                      set("sandboxd", "unheard_of", "x"),
		"+ sandbox: be reached at port 18080 of this host from 0.0.":                                            set("sandboxd", "ports", []any{map[string]any{"published": "18080", "target": 8000, "protocol": "tcp"}}),
		"+ sandbox: run the image evil":                                                                         set("sandboxd", "image", "evil"),
		"+ sandbox: read the secret or config more":                                                             set("sandboxd", "secrets", []any{map[string]any{"source": "more"}}),
		"+ sandbox: run commands without the kernel's restrictions":                                             env("MCP_JAIL", "group"),
		"+ sandbox: let commands use the container's network":                                                   env("MCP_COMMAND_NETWORK", "container"),
		"+ sandbox: be used past the plugin":                                                                    env("MCP_REQUIRE_EDGE", "false"),
		"+ sandbox: run the tool start_command":                                                                 env("MCP_TOOLS", "run_command,start_command"),
		"+ sandbox: show MCP_AUTH_TOKEN":                                                                        env("MCP_AUTH_TOKEN", "x"),
		"+ sandbox: reach the Internet through network sandbox": func(t *testing.T, in *inputs) {
			swap(t, &in.compose, `"com.docker.network.bridge.enable_ip_masquerade": "false"`, `"x": "y"`)
		},
		"+ sandbox: reach other containers on network sandbox": func(t *testing.T, in *inputs) {
			swap(t, &in.compose, `"com.docker.network.bridge.enable_icc": "false",`, ``)
		},
		"+ token client: ask for run_command at /mcp-sandbox":                       edge(`["run_command", "read_file", "write_file"]`, `["ask:run_command", "read_file", "write_file"]`),
		"+ token client: call edit_file at /mcp-sandbox":                            edge(`["run_command", "read_file", "write_file"]`, `["run_command", "read_file", "write_file", "edit_file"]`),
		"+ token client: call edit_file at /mcp-x":                                  edge("\n  services:", "\n    other:\n      Plugin: {x: {PATHPREFIX: /mcp-x, Tokens: [{NAME: client, TOOLS: [edit_file]}]}}\n  services:"),
		"+ token two: call * at /mcp-hub":                                           edge("      tools: [\"*\"]", "      tools: [\"*\"]\n            - {name: two, sha256: abc, tools: ['*']}"),
		"+ server time: have a container with HostConfig.Memory":                    server(`"mcp/time:1.2"`, `"mcp/time:1.2", "memory": "2g"`),
		"+ server time: have a container with HostConfig.NetworkMode":               server(`"mcp/time:1.2"`, `"mcp/time:1.2", "network": "lan"`),
		"+ server files: have a container with HostConfig.Mounts":                   server("/srv/files:/data:ro", "/srv/files:/data"),
		"+ server files: see the value of PASSWORD":                                 server(`"LOG": "info"`, `"LOG": "info", "PASSWORD": "${P}"`),
		"+ server home: be spoken to at /run/other.sock":                            server("/run/home/mcp.sock", "/run/other.sock"),
		`+ server notes: run in the hub's jail: ["/usr/local/bin/notes","--write"]`: server("--read-only", "--write"),
		"+ server search: be called at https://elsewhere.example/mcp":               server("search.example", "elsewhere.example"),
	} {
		t.Run(want, func(t *testing.T) {
			b, in := newBench(t), good(t)
			if code, out := b.run(in, "-accept"); code != 0 {
				t.Fatalf("accept: %d %s", code, out)
			}
			if code, out := b.run(in); code != 0 || !strings.Contains(out, "The same as the accepted plan.") {
				t.Fatalf("unchanged: %d\n%s", code, out)
			}
			change(t, &in)
			code, out := b.run(in)
			if code != 2 || !strings.Contains(out, want) {
				t.Errorf("exit code %d, and no %q in\n%s", code, want, out)
			}
			if code, _ := b.run(in, "-accept"); code != 0 {
				t.Errorf("accept: %d", code)
			}
			if code, out := b.run(in); code != 0 {
				t.Errorf("after it was accepted: %d\n%s", code, out)
			}
		})
	}
}

func TestLessIsNoGrowth(t *testing.T) {
	b, in := newBench(t), good(t)
	b.run(in, "-accept")
	edit(t, &in, "sandboxd", func(s map[string]any) { s["pids_limit"] = 64; delete(s, "ports") })
	swap(t, &in.edge, `["run_command", "read_file", "write_file"]`, `["read_file"]`)
	code, out := b.run(in)
	if code != 0 || !strings.Contains(out, "- token client: call run_command") || !strings.Contains(out, "- sandbox: be reached at port 18080") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	if strings.Contains(out, "\n+ ") {
		t.Errorf("a lower limit counts as more:\n%s", out)
	}
}

func TestJSON(t *testing.T) {
	b, in := newBench(t), good(t)
	code, out := b.run(in, "-json")
	var report struct {
		Plan, More, Less Plan
		Accepted         bool
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 0 || report.Accepted || len(report.Plan) < 20 || len(report.More) != len(report.Plan) {
		t.Errorf("%v %d %+v", err, code, report)
	}
	if _, again := b.run(in, "-json"); again != out {
		t.Error("the same input gives another output")
	}
}

// A file that is only understood in part gives no plan at all.
func TestNoPlanFromHalfAFile(t *testing.T) {
	for name, change := range map[string]func(*inputs){
		"compose is no JSON": func(in *inputs) { in.compose = "services:" },
		"compose is empty":   func(in *inputs) { in.compose = "{}" },
		"a limit is no number": func(in *inputs) {
			in.compose = strings.Replace(in.compose, `"pids_limit": 128`, `"pids_limit": "many"`, 1)
		},
		"a tab":                 func(in *inputs) { in.edge += "x:\n\ty: z\n" },
		"a second document":     func(in *inputs) { in.edge += "---\nhttp: {}\n" },
		"a repeated key":        func(in *inputs) { in.edge += "http:\n  routers: {}\n" },
		"no middleware":         func(in *inputs) { in.edge = "http:\n  routers: {}\n" },
		"an open flow sequence": func(in *inputs) { in.edge += "x: [a,\n" },
		"a broken server":       func(in *inputs) { in.servers = `{"mcpServers":{"a":{"type":"docker"}}}` },
	} {
		in := good(t)
		change(&in)
		if code, out := newBench(t).run(in); code != 1 || strings.Contains(out, "could\n") {
			t.Errorf("%s: %d\n%s", name, code, out)
		}
	}
	if code, _ := newBench(t).run(good(t), "extra"); code != 2 {
		t.Errorf("an argument: %d", code)
	}
}

// Without -servers the stack's own file is read, not one that nobody has.
func TestServersOfTheStack(t *testing.T) {
	b, in := newBench(t), good(t)
	if err := os.Mkdir(filepath.Join(b.dir, "config"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"compose.json": in.compose, "traefik-dynamic.yml": in.edge, "config/mcp.json": in.servers} {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(b.dir)
	var out, errs bytes.Buffer
	if code := Main(t.Context(), []string{"-compose", "compose.json"}, &out, &errs); code != 0 || !strings.Contains(out.String(), "server time could\n") {
		t.Errorf("exit code %d, and no server in\n%s%s", code, out.String(), errs.String())
	}
}

// Routes of login stand between templates: they count only while login is on, as Traefik
// reads them.
func TestLoginRoutes(t *testing.T) {
	for value, want := range map[string]bool{"": false, "https://host.example": true} {
		in := good(t)
		in.compose = strings.Replace(in.compose, `"traefik": {`, `"traefik": {"environment": {"SALLYPORT_LOGIN": "`+value+`"},`, 1)
		_, out := newBench(t).run(in)
		if got := strings.Contains(out, "login at https://host.example/mcp-login could"); got != want {
			t.Errorf("SALLYPORT_LOGIN=%q: %v\n%s", value, got, out)
		}
	}
}
