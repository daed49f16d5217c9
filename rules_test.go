// Package sallyport holds the house rules: what a reviewer would otherwise have
// to remember. Each rule says why it stands here.
package sallyport

import (
	"go/ast"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/sallyport-dev/sallyport"

// linked says which of our packages each binary may link, by folder, and why it
// needs those that are not its own. A code path that is not linked cannot be called.
var linked = []struct {
	binary string
	dirs   []string
}{
	{"sandboxd", []string{"sandboxd", "jail", "internal"}},
	{"hub", []string{"hub", "dockerproxy/wire", "jail", "internal"}},
	{"dockerproxy", []string{"dockerproxy", "internal/mcpjson", "internal/strictjson", "internal/cli", "internal/process"}},
	// plan prints what the policy proxy would create; accept reads the hub's pins.
	{"owner", []string{"owner", "dockerproxy/container", "hub/pins", "jail", "internal"}},
	{"egress", []string{"egress", "internal"}},
	// make run is edge and sandbox in one process, and nothing else.
	{"owner/run", []string{"owner/run", "owner/token", "owner/hosts", "egress", "plugin", "sandboxd", "jail", "internal"}},
	{"plugin", []string{"plugin"}},
}

// foreign says which modules a binary may link beside ours and the standard
// library. YAML is for the owner's plan alone; the process that holds docker.sock
// has x/sys at most.
var foreign = map[string][]string{
	"sandboxd":    {"github.com/modelcontextprotocol/go-sdk", "golang.org/x/", "github.com/google/jsonschema-go", "github.com/segmentio/", "github.com/yosida95/uritemplate"},
	"hub":         {"golang.org/x/sys"},
	"dockerproxy": {"golang.org/x/sys"},
	"egress":      {"golang.org/x/sys"},
	"owner":       nil, // any recorded one
	"owner/run":   {"github.com/modelcontextprotocol/go-sdk", "golang.org/x/", "github.com/google/jsonschema-go", "github.com/segmentio/", "github.com/yosida95/uritemplate"},
	"plugin":      {},
}

// Each process is one trust domain: what its binary links is what it can do.
func TestWhatBinariesLink(t *testing.T) {
	for _, b := range linked {
		cmd := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", "./"+b.binary)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list ./%s: %v", b.binary, err)
		}
		for _, path := range strings.Fields(string(out)) {
			ours, own := strings.CutPrefix(path, module+"/")
			inside := func(dir string) bool { return under(ours, dir) }
			starts := func(prefix string) bool { return strings.HasPrefix(path, prefix) }
			if own && !slices.ContainsFunc(b.dirs, inside) {
				t.Errorf("%s links %s, which belongs to another trust domain", b.binary, ours)
			}
			if list := foreign[b.binary]; !own && list != nil && !slices.ContainsFunc(list, starts) {
				t.Errorf("%s links %s: what it may link is listed here", b.binary, path)
			}
		}
	}
}

// What our own files import, where go list cannot tell whose import it is.
func TestImports(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.in("e2e", "login") {
			continue
		}
		for _, path := range f.imports() {
			if why := refused(f, path); why != "" {
				t.Errorf("%s imports %s: %s", f.name, path, why)
			}
		}
	}
}

func refused(f file, path string) string {
	_, own := strings.CutPrefix(path, module+"/")
	std := !own && !strings.Contains(strings.Split(path, "/")[0], ".")
	switch {
	case path == "C":
		return "cgo would make the binary depend on the machine's libraries"
	case path == "unsafe" && !f.in("jail"):
		return "unsafe stays in jail, where the kernel's interface needs it"
	case path == "os/exec" && !f.in("jail", "owner"):
		return "processes start in jail, so that nothing starts outside its restrictions (sallyport may, for docker and the like)"
	case f.in("plugin") && !std:
		return "Traefik interprets the plugin: only the standard library is at hand, and the reader of the edge has one folder to read"
	}
	return ""
}

// Processes start in one place, also by the ways that do not import os/exec.
func TestProcessesStartInJail(t *testing.T) {
	starts := regexp.MustCompile(`^(os\.StartProcess|(syscall|unix)\.(ForkExec|StartProcess|Exec|RawSyscall6?|RawSyscallNoError|SyscallNoError|Syscall6?))$`)
	for _, f := range sources(t) {
		if f.test || f.in("e2e", "login", "jail") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && starts.MatchString(x.Name+"."+s.Sel.Name) {
					t.Errorf("%s: %s.%s outside jail", f.pos(n), x.Name, s.Sel.Name)
				}
			}
			return true
		})
	}
}

// What the members of an object are is decided once: two readers that disagree
// about a key that is there twice are how a policy is bypassed. The plugin keeps
// its own, since it can import nothing, and is held to the same inputs.
func TestOneStrictReaderOfJSON(t *testing.T) {
	own := regexp.MustCompile(`^json\.Delim$|\.DisallowUnknownFields$`)
	for _, f := range sources(t) {
		if f.test || f.in("plugin", "e2e", "internal/strictjson") {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				x, _ := s.X.(*ast.Ident)
				if x != nil && own.MatchString(x.Name+"."+s.Sel.Name) {
					t.Errorf("%s: a strict reader of its own: use internal/strictjson (Cursor, Into, Decode)", f.pos(n))
				}
			}
			return true
		})
	}
}

// The catalog refuses a root module that names Traefik or Yaegi, and a short
// list of dependencies can be read.
func TestRootModule(t *testing.T) {
	mod := read(t, "go.mod")
	for _, name := range []string{"traefik/traefik", "traefik/yaegi"} {
		if strings.Contains(mod, name) {
			t.Errorf("go.mod names %s: the plugin catalog refuses such a module; it belongs in e2e/go.mod", name)
		}
	}
	direct := regexp.MustCompile(`(?m)^\t(\S+) v\S+$`).FindAllStringSubmatch(mod, -1)
	records := map[string]string{
		"github.com/modelcontextprotocol/go-sdk": "0001-go-sdk.md",
		"golang.org/x/sys":                       "0002-x-sys.md",
		"go.yaml.in/yaml/v3":                     "0062-yaml-library.md",
	}
	for _, m := range direct {
		record, ok := records[m[1]]
		if !ok {
			t.Errorf("go.mod requires %s directly: record the decision in docs/decisions and name it here", m[1])
		} else if !strings.Contains(read(t, "docs/decisions/"+record), m[1]) {
			t.Errorf("docs/decisions/%s does not speak of %s", record, m[1])
		}
	}
	if len(direct) == 0 {
		t.Error("no direct requirement found: this test reads go.mod wrongly")
	}
}

// What decides about security must be readable in an evening. Counted are lines
// of code, so that explaining costs nothing (docs/decisions/0060-line-budgets.md).
func TestLineBudgets(t *testing.T) {
	budgets := []struct {
		lines int
		dirs  []string
	}{
		{3830, []string{"plugin"}},
		{3410, []string{"jail"}}, // policy as data with its self-test, and the namespaces of commands
		{2870, []string{"sandboxd/serve", "sandboxd/tool"}},
		{2940, []string{"sandboxd/files", "sandboxd/command", "sandboxd/output", "internal/diff"}}, // docs/decisions/0061
		{8845, []string{"internal"}}, // a fifth of it is audit, the chain and its checker; mcphttp came from the hub
		{4990, []string{"hub"}},      // docs/decisions/0071, 0072
		{2200, []string{"dockerproxy"}},
		{1750, []string{"egress"}}, // with egresstest, a small Internet for its tests
		{2510, []string{"login"}},
		{8020, []string{"owner"}}, // with approve, audit, hosts and watch, which run by hand and serve nobody
	}
	all := sources(t)
	for _, b := range budgets {
		sum := 0
		for _, f := range all {
			if !f.test && f.in(b.dirs...) {
				sum += f.code
			}
		}
		t.Logf("%s: %d of %d", strings.Join(b.dirs, ", "), sum, b.lines)
		if sum > b.lines {
			t.Errorf("%s: %d lines of code, the budget is %d", strings.Join(b.dirs, ", "), sum, b.lines)
		}
	}
}

// A file or function that does not fit in the head hides its mistakes.
func TestSizes(t *testing.T) {
	for _, f := range sources(t) {
		if f.lines > 350 {
			t.Errorf("%s: %d lines, the limit is 350", f.name, f.lines)
		}
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && !f.test {
				if n := f.set.Position(fn.End()).Line - f.set.Position(fn.Pos()).Line + 1; n > 60 {
					t.Errorf("%s: %s has %d lines, the limit is 60", f.pos(fn), fn.Name.Name, n)
				}
			}
		}
	}
}

// A line that runs out of the window hides its end. An address is not cut; a tab
// counts as four.
func TestColumns(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || f.in("e2e") {
			continue
		}
		for i, line := range strings.Split(read(t, f.name), "\n") {
			columns := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
			if columns > 120 && !strings.Contains(line, "://") {
				t.Errorf("%s:%d: %d columns, the limit is 120", f.name, i+1, columns)
			}
		}
	}
}

// An exported name is a promise, so it says what it promises.
func TestExportedNamesAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		documented[f.dir] = documented[f.dir] || f.tree.Doc != nil
		for _, d := range f.tree.Decls {
			for _, bare := range undocumented(d) {
				t.Errorf("%s: %s is exported and has no comment", f.pos(bare), bare.Name)
			}
		}
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: no file has a package comment", dir)
		}
	}
}

func undocumented(d ast.Decl) (bare []*ast.Ident) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
			bare = append(bare, d.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
					bare = append(bare, s.Name)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					bare = append(bare, s.Names[0])
				}
			}
		}
	}
	return bare
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	t := d.Recv.List[0].Type
	if s, ok := t.(*ast.StarExpr); ok {
		t = s.X
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	id, ok := t.(*ast.Ident)
	return !ok || id.IsExported()
}

// A name says what a thing is for; these say nothing. A note to do something
// later belongs in the issue tracker, where someone looks for it.
func TestNamesAndNotes(t *testing.T) {
	note := regexp.MustCompile(`\b(TODO|FIXME|XXX|HACK)\b`)
	for _, f := range sources(t) {
		if slices.Contains([]string{"util", "utils", "helper", "helpers", "common", "misc"}, f.tree.Name.Name) {
			t.Errorf("%s: package %s", f.name, f.tree.Name.Name)
		}
		for _, c := range f.tree.Comments {
			if f.name != "rules_test.go" && note.MatchString(c.Text()) {
				t.Errorf("%s: a note to do something later", f.pos(c))
			}
		}
	}
}

// Secrets lie in the checkout after "make env" and "make run", so neither Git
// nor the build context of an image may take them along.
func TestSecretsStayOut(t *testing.T) {
	for _, name := range []string{".gitignore", ".dockerignore"} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, secret := range []string{".env", ".sallyport"} {
			if !regexp.MustCompile(`(?m)^/?` + regexp.QuoteMeta(secret) + `/?$`).Match(raw) {
				t.Errorf("%s does not exclude %s", name, secret)
			}
		}
	}
}
