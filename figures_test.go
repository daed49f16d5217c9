package sallyport

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
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

// quoted are the figures that README.md quotes: a place in it, and the row of
// docs/figures/bench.json that says the number.
var quoted = []struct{ place, group, work string }{
	{`(of 1 KiB over SSE, )([0-9.]+)( of the calls/s)`, "Tools", "read_file of 1 KiB, 16 clients, SSE"},
	{"(`run_command`, )([0-9.]+)( times as fast as `docker exec`)", "Tools", "run_command `true` through MCP"},
	{`(a forged JWT of 1,100 claims, )([0-9.]+)( ms of the edge's)`, "Hostile requests", "a forged JWT of 1,100 claims"},
}

// README quotes what the last make bench measured; with -update it does again.
func TestReadmeFigures(t *testing.T) {
	data, err := os.ReadFile("docs/figures/bench.json")
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("not on this machine: no figures are committed yet; make bench writes them")
	}
	var run struct {
		Rows []figureRow `json:"rows"`
	}
	if err == nil {
		err = json.Unmarshal(data, &run)
	}
	if err != nil {
		t.Fatal(err)
	}
	page := read(t, "README.md")
	for _, q := range quoted {
		i := slices.IndexFunc(run.Rows, func(r figureRow) bool { return r.Group == q.group && r.Work == q.work })
		m := regexp.MustCompile(q.place).FindStringSubmatch(page)
		if i < 0 || m == nil {
			t.Errorf("%s, %s: in bench.json %t, in README.md %t", q.group, q.work, i >= 0, m != nil)
			continue
		}
		if want := run.Rows[i].value(); m[2] != want {
			if !*update {
				t.Errorf("README.md says %q, bench.json %s: go test . -run Figures -update", m[0], want)
			}
			page = strings.Replace(page, m[0], m[1]+want+m[3], 1)
		}
	}
	if *update {
		if err := os.WriteFile("README.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// figureRow is what README needs of a row (e2e/figures).
type figureRow struct {
	Group, Work, Judge string
	Ours, Theirs       []float64
}

// value is the median of the rounds with three digits, as bench.md has it.
func (r figureRow) value() string {
	values := slices.Clone(r.Ours)
	for i := range values {
		switch r.Judge {
		case "ratio":
			values[i] /= r.Theirs[i]
		case "times":
			values[i] = r.Theirs[i] / values[i]
		}
	}
	slices.Sort(values)
	v := values[len(values)/2]
	return strconv.FormatFloat(v, 'f', max(0, 2-int(math.Floor(math.Log10(v)))), 64)
}
