package sallyport

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// file is one Go file of ours.
type file struct {
	name, dir string // slash-separated, from the root of the repository
	test      bool
	lines     int
	set       *token.FileSet
	tree      *ast.File
}

func (f file) in(dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(f.dir, d) })
}

func (f file) pos(n ast.Node) string { return f.set.Position(n.Pos()).String() }

func (f file) imports() []string {
	var paths []string
	for _, i := range f.tree.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		paths = append(paths, p)
	}
	return paths
}

func under(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// sources parses every Go file that is ours.
func sources(t *testing.T) []file {
	t.Helper()
	var all []file
	for _, name := range tracked(t, ".go") {
		src := read(t, name)
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, file{
			name: name, dir: path.Dir(name), test: strings.HasSuffix(name, "_test.go"),
			lines: bytes.Count([]byte(src), []byte("\n")), set: set, tree: tree,
		})
	}
	if len(all) == 0 {
		t.Fatal("no Go file found: the test does not stand at the root of the repository")
	}
	return all
}

// tracked lists the files with this ending that belong to the repository:
// without what is fetched, built or kept for a running installation.
func tracked(t *testing.T, ending string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			skip := []string{"vendor", "node_modules", "bin", "workspace", "testdata"}
			if name != "." && (strings.HasPrefix(d.Name(), ".") || slices.Contains(skip, d.Name())) {
				return filepath.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(name, ending) {
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func read(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
