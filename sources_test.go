package sallyport

import (
	"go/ast"
	"go/parser"
	"go/scanner"
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
	lines     int // all of them
	code      int // those that hold more than blanks and comments
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
			lines: strings.Count(src, "\n"), code: codeLines(src), set: set, tree: tree,
		})
	}
	if len(all) == 0 {
		t.Fatal("no Go file found: the test does not stand at the root of the repository")
	}
	return all
}

// codeLines counts the lines on which a token stands.
func codeLines(src string) int {
	set := token.NewFileSet()
	f := set.AddFile("", -1, len(src))
	var s scanner.Scanner
	s.Init(f, []byte(src), nil, 0) // without comments
	lines := map[int]bool{}
	for {
		pos, tok, text := s.Scan()
		if tok == token.EOF {
			return len(lines)
		}
		if tok == token.SEMICOLON && text == "\n" {
			continue // the one that the scanner adds
		}
		first := f.Line(pos)
		for n := range 1 + strings.Count(text, "\n") { // a raw string has many
			lines[first+n] = true
		}
	}
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
			skip := []string{"vendor", "node_modules", "bin", "dist", "workspace", "testdata"}
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
