package sallyport

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Yaegi v0.16.1 compiles these to something else than Go does, or not at all.
// Each was tried; the tests of this package could miss one on a rare path.
var miscompiled = []struct{ what, why, example string }{
	{"parallel assignment", "with a call on the right side, values land in the wrong variables",
		`func f() { var a, b string; a, b = g(), "x"; _ = a + b }`},
	{"builtin in a later result of a return", "its value lands in the first result",
		`func f(v []int) (int, int) { return 7, len(v) }`},
	{"several conditions in one case", "without a tag, only the first is looked at",
		`func f(a, b bool) { switch { case a, b: g() } }`},
	{"switch over an interface with constants", "it panics when a value has another type",
		`func f(t json.Token) { switch t { case json.Delim('{'): g() } }`},
	{"loop over an integer or function", "Traefik exits at start",
		`func f() { for range 3 { } }`},
	{"min, max or clear", "undefined",
		`func f() int { return min(1, 2) }`},
	{"labelled break", "inside a select it does not leave the loop",
		`func f(c chan int) { loop: for { select { case <-c: break loop } } }`},
	{"deferred call with arguments", "they are evaluated at the end of the function",
		`func f(n int) { defer g(n) }`},
	{"go statement", "a panic in it ends Traefik, and in a loop it sees the last value",
		`func f() { go g() }`},
	{"function literal in a loop", "it shares the loop's variable",
		`func f() { for i := 0; i < 3; i++ { g(func() { println(i) }) } }`},
	{"address of a range variable", "all are the same",
		`func f(v []int) { for _, n := range v { g(&n) } }`},
	{"embedded field", "methods and JSON of it are lost, but those of an http.ResponseWriter where one is wanted",
		`type t struct { sync.Mutex }`},
	{"errors.Is or errors.As with a type of ours", "false, or a panic",
		`func f(err error) { var e *ours; errors.As(err, &e) }`},
	{"method of a type for JSON or errors", "it is not called",
		`func (t t) MarshalJSON() ([]byte, error) { return nil, nil }`},
	{"build constraint", "not honoured",
		`//go:build ignore`},
	{"import of what the interpreter lacks", "the plugin does not load",
		`import "os/exec"`},
	{"selector that is newer than Go 1.22", "undefined",
		`func f(v []int) { slices.Sort(v) }`},
	{"return of a channel receive", "it panics",
		`func f(c chan int) int { return <-c }`},
	{"new(value)", "a pointer to zero",
		`func f() *int { return new(42) }`},
	{"two-valued look-up in a map, in a loop", "a value that is not there is the one of the round before",
		`func f(m map[string]int) { for i := 0; i < 3; i++ { v, ok := m["a"]; g(v, ok) } }`},
}

// The standard library's own targets of errors.As are sound.
var soundTargets = regexp.MustCompile(`^&(over)$`)

var newer = regexp.MustCompile(`^(slices\.(Sort|SortFunc|IsSorted|BinarySearch|Max|Min|Clone|Equal|Compact|Insert|Delete|DeleteFunc|Grow|Reverse|Sorted|Collect|Values)|maps\.(Clone|Copy|Equal|Keys|Values)|cmp\.Or|strings\.(Lines|SplitSeq|SplitAfterSeq|FieldsSeq)|bytes\.(Lines|SplitSeq)|atomic\.Pointer|sync\.(OnceValue|OnceValues)|errors\.AsType|os\.OpenRoot)$`)

var missing = map[string]bool{"os/exec": true, "syscall": true, "unsafe": true, "plugin": true, "embed": true,
	"iter": true, "crypto/hkdf": true, "crypto/pbkdf2": true, "crypto/mlkem": true, "unique": true, "weak": true}

// isConstant is about a number, which is the same when it is evaluated late.
func isConstant(arg ast.Expr) bool {
	if sign, ok := arg.(*ast.UnaryExpr); ok {
		arg = sign.X
	}
	_, ok := arg.(*ast.BasicLit)
	return ok
}

// isResponseWriter is about the one embedded type that is sound: its methods are
// bound as compiled code when the value becomes an http.ResponseWriter.
func isResponseWriter(t ast.Expr) bool {
	sel, ok := t.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == "ResponseWriter"
}

// dialect lists what a file has of miscompiled, as "position: what".
func dialect(set *token.FileSet, f *ast.File) []string {
	var found []string
	say := func(n ast.Node, what string) {
		found = append(found, set.Position(n.Pos()).String()+": "+what)
	}
	loops := 0
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if len(n.Rhs) > 1 {
				say(n, "parallel assignment")
			}
			if loops > 0 && len(n.Lhs) == 2 && ident(n.Lhs[0]) != "_" && lookUp(n.Rhs[0]) {
				say(n, "two-valued look-up in a map, in a loop")
			}
		case *ast.ReturnStmt:
			for i, r := range n.Results {
				if c, ok := r.(*ast.CallExpr); ok && i > 0 && isBuiltin(c.Fun) {
					say(n, "builtin in a later result of a return")
				}
				if u, ok := r.(*ast.UnaryExpr); ok && u.Op == token.ARROW {
					say(n, "return of a channel receive")
				}
			}
		case *ast.SwitchStmt:
			for _, s := range n.Body.List {
				c := s.(*ast.CaseClause)
				if n.Tag == nil && len(c.List) > 1 {
					say(c, "several conditions in one case")
				}
				for _, e := range c.List {
					if _, ok := e.(*ast.CallExpr); ok && n.Tag != nil {
						say(c, "switch over an interface with constants")
					}
				}
			}
		case *ast.RangeStmt:
			if b, ok := n.X.(*ast.BasicLit); ok && b.Kind == token.INT {
				say(n, "loop over an integer or function")
			}
			if _, ok := n.X.(*ast.CallExpr); ok && n.Value == nil && n.Key == nil {
				say(n, "loop over an integer or function")
			}
			loops++
			ast.Inspect(n.Body, visit)
			loops--
			return false
		case *ast.ForStmt:
			loops++
			ast.Inspect(n.Body, visit)
			loops--
			return false
		case *ast.FuncLit:
			if loops > 0 {
				say(n, "function literal in a loop")
			}
		case *ast.UnaryExpr:
			if id, ok := n.X.(*ast.Ident); ok && n.Op == token.AND && loops > 0 && rangeVariable(id) {
				say(n, "address of a range variable")
			}
		case *ast.BranchStmt:
			if n.Label != nil {
				say(n, "labelled break")
			}
		case *ast.DeferStmt:
			if slices.ContainsFunc(n.Call.Args, func(arg ast.Expr) bool { return !isConstant(arg) }) {
				say(n, "deferred call with arguments")
			}
		case *ast.GoStmt:
			say(n, "go statement")
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if len(field.Names) == 0 && !isResponseWriter(field.Type) {
					say(n, "embedded field")
				}
			}
		case *ast.FuncDecl:
			if n.Recv != nil && regexp.MustCompile(`^(MarshalJSON|UnmarshalJSON|MarshalText|UnmarshalText|Is|As|Unwrap|Error|String|Flush|Hijack)$`).MatchString(n.Name.Name) {
				say(n, "method of a type for JSON or errors")
			}
		case *ast.CallExpr:
			calls(n, say)
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && newer.MatchString(x.Name+"."+n.Sel.Name) {
				say(n, "selector that is newer than Go 1.22")
			}
		case *ast.ImportSpec:
			if path := strings.Trim(n.Path.Value, `"`); missing[path] {
				say(n, "import of what the interpreter lacks")
			}
		}
		return true
	}
	ast.Inspect(f, visit)
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, "//go:build") || strings.HasPrefix(c.Text, "// +build") {
				say(c, "build constraint")
			}
		}
	}
	return found
}

func isBuiltin(f ast.Expr) bool {
	id, ok := f.(*ast.Ident)
	return ok && (id.Name == "len" || id.Name == "cap" || id.Name == "append" || id.Name == "copy")
}

// rangeVariable says whether an identifier was declared by a range statement.
func rangeVariable(id *ast.Ident) bool {
	if id.Obj == nil {
		return false
	}
	assign, ok := id.Obj.Decl.(*ast.AssignStmt)
	if !ok || len(assign.Rhs) != 1 {
		return false
	}
	u, ok := assign.Rhs[0].(*ast.UnaryExpr)
	return ok && u.Op == token.RANGE
}

func calls(n *ast.CallExpr, say func(ast.Node, string)) {
	switch f := n.Fun.(type) {
	case *ast.Ident:
		if (f.Name == "min" || f.Name == "max" || f.Name == "clear") && f.Obj == nil {
			say(n, "min, max or clear")
		}
		if f.Name == "new" && len(n.Args) == 1 {
			if _, ok := n.Args[0].(*ast.BasicLit); ok {
				say(n, "new(value)")
			}
		}
	case *ast.SelectorExpr:
		x, ok := f.X.(*ast.Ident)
		if !ok || x.Name != "errors" || len(n.Args) != 2 {
			return
		}
		u, isAddress := n.Args[1].(*ast.UnaryExpr)
		if f.Sel.Name == "As" && !(isAddress && u.Op == token.AND && soundTargets.MatchString("&"+ident(u.X))) {
			say(n, "errors.Is or errors.As with a type of ours")
		}
	}
}

func lookUp(e ast.Expr) bool {
	_, index := e.(*ast.IndexExpr)
	return index
}

func ident(e ast.Expr) string {
	if id, ok := e.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}

func TestPluginDialect(t *testing.T) {
	read := 0
	for _, f := range sources(t) {
		if f.test || !f.in("plugin") {
			continue
		}
		read++
		for _, line := range dialect(f.set, f.tree) {
			t.Error(line)
		}
	}
	if read == 0 {
		t.Error("no source of the plugin was read")
	}
}

// The lint refuses each construct.
func TestPluginDialectFinds(t *testing.T) {
	for _, m := range miscompiled {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, "example.go", "package example\n"+m.example, parser.ParseComments)
		if err != nil {
			t.Errorf("%s: %v", m.what, err)
			continue
		}
		if !strings.Contains(strings.Join(dialect(set, f), "\n"), m.what) {
			t.Errorf("%q is not refused (%s)", m.what, m.why)
		}
	}
}

// Constant time is a matter of structure: the loop that compares a token with
// the known ones has no way out before its end, and branches on nothing.
func TestEveryTokenIsCompared(t *testing.T) {
	found := false
	for _, f := range sources(t) {
		if f.name != "plugin/auth.go" {
			continue
		}
		for _, d := range f.tree.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Name.Name != "match" {
				continue
			}
			found = true
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.IfStmt, *ast.BranchStmt, *ast.SwitchStmt, *ast.ForStmt:
					t.Errorf("%s: match branches", f.pos(n))
				case *ast.BinaryExpr:
					if n.Op != token.ADD && n.Op != token.MUL {
						t.Errorf("%s: match compares by an operator", f.pos(n))
					}
				case *ast.ReturnStmt:
					if n != fn.Body.List[len(fn.Body.List)-1] {
						t.Errorf("%s: match returns early", f.pos(n))
					}
				}
				return true
			})
		}
	}
	if !found {
		t.Error("there is no match in plugin/auth.go")
	}
}
