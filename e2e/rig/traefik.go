package rig

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// TraefikOptions says how Traefik starts.
type TraefikOptions struct {
	Dynamic   string   // the dynamic configuration, YAML
	TOML      string   // a second file of it
	FastProxy bool     // experimental.fastProxy instead of httputil
	NoPlugin  bool     // leave the plugin out of the static configuration
	Plugin    string   // folder to load the plugin from; default: this checkout
	Args      []string // further static configuration, as flags
	Env       []string // further environment, for templates
	Secure    string   // host:port of websecure; default: a free one
}

// Traefik is a running Traefik. Its entry points are web (clear), websecure
// (TLS with a self-signed certificate) and traefik (API).
type Traefik struct {
	*Process
	Web, WebSecure, API string            // base URLs without a trailing slash
	others              map[string]string // further entry points: name → base URL
	dynamic             string
	generation          atomic.Int64
}

// PluginModule is the plugin's module path, PluginAlias its name in middlewares.
const (
	PluginModule = "github.com/sallyport-dev/sallyport"
	PluginAlias  = "sallyport"
)

// StartTraefik starts Traefik and returns once the dynamic configuration is
// served on all entry points. Those that Args add are taken for clear ones.
func StartTraefik(t testing.TB, o TraefikOptions) *Traefik {
	t.Helper()
	bin, err := tools.Traefik()
	Need(t, err, "Traefik (PATH, TRAEFIK_BIN or the Go module proxy)")
	dir := t.TempDir()
	web, secure, api := FreeAddr(t), FreeAddr(t), FreeAddr(t)
	secure = cmp.Or(o.Secure, secure)
	tr := &Traefik{
		Web: "http://" + web, WebSecure: "https://" + secure, API: "http://" + api,
		dynamic: filepath.Join(dir, "dynamic"), others: map[string]string{},
	}
	for _, arg := range o.Args {
		if name, addr, ok := strings.Cut(strings.TrimPrefix(arg, "--entrypoints."), ".address="); ok {
			tr.others[name] = "http://" + addr
		}
	}
	args := []string{
		"--global.checknewversion=false", "--global.sendanonymoususage=false",
		"--log.level=DEBUG", "--log.nocolor=true", "--api.insecure=true",
		"--entrypoints.web.address=" + web, "--entrypoints.websecure.address=" + secure,
		"--entrypoints.traefik.address=" + api,
		"--providers.file.directory=" + tr.dynamic,
	}
	if o.FastProxy {
		args = append(args, "--experimental.fastproxy=true")
	}
	if !o.NoPlugin {
		args = append(args, "--experimental.localplugins."+PluginAlias+".modulename="+PluginModule)
		linkPlugin(t, dir, o.Plugin)
	}
	tr.write(t, o.Dynamic)
	if o.TOML != "" {
		tr.replace(t, "second.toml", o.TOML)
	}
	cmd := exec.Command(bin, append(args, o.Args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), o.Env...)
	tr.Process = Start(t, cmd)
	tr.waitLoaded(t)
	return tr
}

// linkPlugin puts the plugin where Traefik looks for local ones.
func linkPlugin(t testing.TB, dir, source string) {
	t.Helper()
	if source == "" {
		source = Root(t)
	}
	link := filepath.Join(dir, "plugins-local", "src", filepath.FromSlash(PluginModule))
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(source, link); err != nil {
		t.Fatal(err)
	}
}

// SetDynamic replaces the dynamic configuration and returns once it is served.
func (tr *Traefik) SetDynamic(t testing.TB, yaml string) {
	t.Helper()
	tr.write(t, yaml)
	tr.waitLoaded(t)
}

// write writes the configuration with a route of the rig's own, by which
// waitLoaded sees that it is in force. Traefik reads the folder file by file in
// the order of their names, possibly while we write. So the mark is written
// last and read first: whoever has read it reads no older configuration after.
func (tr *Traefik) write(t testing.TB, yaml string) {
	t.Helper()
	mark := fmt.Sprintf(`http:
  routers:
    rig-web: {rule: "Path(`+"`/rig-%[1]d`"+`)", priority: 999999, entryPoints: [%[2]s], service: noop@internal}
    rig-websecure: {rule: "Path(`+"`/rig-%[1]d`"+`)", priority: 999999, entryPoints: [websecure], service: noop@internal, tls: {}}
`, tr.generation.Add(1), strings.Join(append(slices.Collect(maps.Keys(tr.others)), "web"), ", "))
	if err := os.MkdirAll(tr.dynamic, 0o755); err != nil {
		t.Fatal(err)
	}
	tr.replace(t, "dynamic.yml", yaml)
	tr.replace(t, "0-mark.yml", mark)
}

// replace puts a file into the folder at once, whole.
func (tr *Traefik) replace(t testing.TB, name, content string) {
	t.Helper()
	tmp := filepath.Join(filepath.Dir(tr.dynamic), name)
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tmp, filepath.Join(tr.dynamic, name)); err != nil {
		t.Fatal(err)
	}
}

// waitLoaded asks every entry point: Traefik switches them one after the other,
// in any order.
func (tr *Traefik) waitLoaded(t testing.TB) {
	t.Helper()
	mark := fmt.Sprintf("/rig-%d", tr.generation.Load())
	for _, base := range append(slices.Collect(maps.Values(tr.others)), tr.Web, tr.WebSecure) {
		Until(t, "Traefik to serve its configuration at "+base, func() bool { return Status(base+mark) == 418 }, tr.Process)
	}
}

// Errors returns the lines that Traefik logged as errors.
func (tr *Traefik) Errors() []string {
	var lines []string
	for line := range strings.Lines(tr.Log.String()) {
		if strings.Contains(line, " ERR ") {
			lines = append(lines, line)
		}
	}
	return lines
}
