// Package yaegi runs the plugin as Traefik and its catalog do: interpreted.
package yaegi

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

const module = "github.com/sallyport-dev/sallyport"

// gopath makes a GOPATH with this checkout in it, as Traefik unpacks plugins.
func gopath(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	link := filepath.Join(dir, "src", filepath.FromSlash(module))
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(rig.Root(t), link); err != nil {
		t.Fatal(err)
	}
	return dir
}

var verdict = regexp.MustCompile(`^--- (PASS|FAIL|SKIP): (\S+)`)

// The whole test suite of the plugin passes in the interpreter too.
func TestPluginTestsInterpreted(t *testing.T) {
	find := exec.Command("go", "tool", "-n", "yaegi")
	bin, err := find.Output()
	if err != nil {
		t.Fatal(err)
	}
	root := gopath(t)
	cmd := exec.Command(strings.TrimSpace(string(bin)), "test", "-v", ".")
	cmd.Dir = filepath.Join(root, "src", filepath.FromSlash(module), "plugin")
	cmd.Env = append(os.Environ(), "GOPATH="+root, "PWD="+cmd.Dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	want := declared(t, cmd.Dir)
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m := verdict.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		t.Run(m[2], func(t *testing.T) {
			if m[1] != "PASS" {
				t.Errorf("%s when interpreted", m[1])
			}
		})
		delete(want, m[2])
	}
	for name := range want {
		t.Errorf("%s did not run in the interpreter", name)
	}
}

var test = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// declared are the tests that must have run.
func declared(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\n//go:build gc\n") {
			continue // says why
		}
		for _, m := range test.FindAllStringSubmatch(string(data), -1) {
			names[m[1]] = true
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d tests are declared in %s", len(names), dir)
	}
	return names
}
