package sallyport

import (
	"os"
	"path"
	"strings"
	"testing"
)

// figurePages are the files of docs/figures, and the command in the Makefile or the
// test that makes each again.
var figurePages = []struct{ pattern, command string }{
	{"README.md", "by hand"},
	{"bench.md", "make bench"},
	{"bench.json", "make bench"},
	{"bench-*.svg", "make bench"},
	{"conformance.md", "go test ./conformance ./hub ./login -run Conformance -update"},
	{"soak.md", "make soak"},
}

// A figure that no command prints again is a claim.
func TestEachFigureNamesItsCommand(t *testing.T) {
	index, makefile := read(t, "docs/figures/README.md"), read(t, "Makefile")
	for _, p := range figurePages {
		target, isMake := strings.CutPrefix(p.command, "make ")
		if isMake && !strings.Contains(makefile, "\n"+target+":") {
			t.Errorf("%s: the Makefile has no %s", p.pattern, target)
		}
		if p.command != "by hand" && (!strings.Contains(index, p.pattern) || !strings.Contains(index, p.command)) {
			t.Errorf("docs/figures/README.md does not say that %s makes %s", p.command, p.pattern)
		}
	}
	files, err := os.ReadDir("docs/figures")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		command := ""
		for _, p := range figurePages {
			if ok, _ := path.Match(p.pattern, f.Name()); ok {
				command = p.command
			}
		}
		if command == "" {
			t.Errorf("docs/figures/%s: no command makes it: add it to figurePages", f.Name())
		}
		if path.Ext(f.Name()) == ".md" && command != "by hand" && !strings.Contains(read(t, "docs/figures/"+f.Name()), command) {
			t.Errorf("docs/figures/%s does not name %q", f.Name(), command)
		}
	}
}
