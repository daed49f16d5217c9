package yaegi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mitchellh/mapstructure"
	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/traefik/yaegi/interp"
	"github.com/traefik/yaegi/stdlib"
	"gopkg.in/yaml.v3"
)

// manifest is what the catalog reads of .traefik.yml.
type manifest struct {
	DisplayName string         `yaml:"displayName"`
	Type        string         `yaml:"type"`
	Runtime     string         `yaml:"runtime"`
	Import      string         `yaml:"import"`
	BasePkg     string         `yaml:"basePkg"`
	Summary     string         `yaml:"summary"`
	IconPath    string         `yaml:"iconPath"`
	BannerPath  string         `yaml:"bannerPath"`
	UseUnsafe   bool           `yaml:"useUnsafe"`
	TestData    map[string]any `yaml:"testData"`
}

func readManifest(t *testing.T, root string) manifest {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, ".traefik.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := yaml.Unmarshal(data, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

// What the catalog checks without running anything.
func TestManifest(t *testing.T) {
	root := rig.Root(t)
	m := readManifest(t, root)
	if m.DisplayName == "" || m.Type != "middleware" || m.Runtime != "" || m.Summary == "" || m.UseUnsafe || len(m.TestData) == 0 {
		t.Errorf("incomplete: %+v", m)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(mod), "module "+module+"\n") || !strings.HasPrefix(m.Import, module) {
		t.Errorf("the import %s is not in the module", m.Import)
	}
	for _, path := range []string{m.IconPath, m.BannerPath, "README.md"} {
		if info, err := os.Stat(filepath.Join(root, path)); err != nil || path == "" || info.Size() == 0 {
			t.Errorf("%q: %v", path, err)
		}
	}
}

const catalogChild = "SALLYPORT_CATALOG_GOPATH"

// The catalog calls the plugin with testData: without environment, network and
// files, from another folder, within ten seconds. A child process has all that.
func TestCatalog(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestCatalogChild$", "-test.v")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{catalogChild + "=" + gopath(t)}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		rig.Need(t, err, "user namespaces")
	}
	if err != nil || !strings.Contains(string(out), "PASS: TestCatalogChild") {
		t.Fatalf("%v\n%s", err, out)
	}
}

// TestCatalogChild runs in the child of TestCatalog only.
func TestCatalogChild(t *testing.T) {
	root := os.Getenv(catalogChild)
	if root == "" {
		return
	}
	begun := time.Now()
	m := readManifest(t, filepath.Join(root, "src", filepath.FromSlash(module)))
	i := interp.New(interp.Options{GoPath: root})
	if err := i.Use(stdlib.Symbols); err != nil {
		t.Fatal(err)
	}
	eval := func(code string) reflect.Value {
		v, err := i.Eval(code)
		if err != nil {
			t.Fatalf("%s: %v", code, err)
		}
		return v
	}
	eval(fmt.Sprintf("import %q", m.Import))
	config := eval(m.BasePkg + ".CreateConfig()")
	decode(t, scalarsAsText(m.TestData), config.Interface())
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	next := http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTeapot) })
	results := eval(m.BasePkg + ".New").Call([]reflect.Value{
		reflect.ValueOf(ctx), reflect.ValueOf(next), config, reflect.ValueOf("catalog"),
	})
	if err, _ := results[1].Interface().(error); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	rec := httptest.NewRecorder()
	results[0].Interface().(http.Handler).ServeHTTP(rec, httptest.NewRequest("GET", "/mcp/sse", nil))
	if rec.Code != http.StatusUnauthorized {
		t.Errorf("status %d without a token", rec.Code)
	}
}

// The plugin page's example for Kubernetes, with the types that a custom
// resource has: numbers and booleans are not strings.
func TestKubernetesExample(t *testing.T) {
	token, _ := rig.NewToken(t)
	for _, example := range rig.Examples(t, "plugin.md", "yaml", token) {
		var m struct {
			Kind string
			Spec struct{ Plugin map[string]any }
		}
		if yaml.Unmarshal([]byte(example), &m) != nil || m.Kind != "Middleware" {
			continue
		}
		server := httptest.NewServer(interpreted(t, m.Spec.Plugin[rig.PluginAlias], http.HandlerFunc(rig.ServeExample)))
		defer server.Close()
		rig.CheckExample(t, server.URL+"/mcp/mcp", token)
		return
	}
	t.Error("the page has no example for Kubernetes")
}

// decode is the way that Traefik and the catalog decode a plugin's settings:
// weak types, lists also as comma-separated text. Scalars are strings, except
// from Kubernetes.
func decode(t testing.TB, data, into any) {
	t.Helper()
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		DecodeHook: mapstructure.StringToSliceHookFunc(","), WeaklyTypedInput: true, Result: into,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Decode(data); err != nil {
		t.Fatal(err)
	}
}

func scalarsAsText(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			out[key] = scalarsAsText(value)
		}
		return out
	case []any:
		out := []any{}
		for _, value := range v {
			out = append(out, scalarsAsText(value))
		}
		return out
	}
	return fmt.Sprint(v)
}
