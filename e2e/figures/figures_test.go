package figures_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

func row(ours ...float64) figures.Row {
	return figures.Row{Group: "Edge", Work: "a & b", Unit: "µs", Alternative: "theirs", Ours: ours, Theirs: []float64{10, 10, 10},
		Judge: figures.Ratio, Less: true, Bar: 1, Aim: 0.6, Made: "2026-11-30"}
}

// A row says whether it holds its bar and its aim, in either direction.
func TestVerdicts(t *testing.T) {
	more := row(20, 5, 4)
	more.Judge = figures.Times
	more.Less, more.Bar, more.Aim = false, 1.5, 3
	for want, r := range map[string]figures.Row{"aim": row(5, 6, 7), "bar": row(8, 9, 10), "missed": row(12, 13, 14)} {
		if got := r.Verdict(); got != want {
			t.Errorf("%v: %s, want %s", r.Ours, got, want)
		}
	}
	if more.Value() != 2 || more.Verdict() != "bar" {
		t.Errorf("times: %v %s", more.Value(), more.Verdict())
	}
}

// A row says that it moved only where both runs' spreads leave the other's value out.
func TestMoved(t *testing.T) {
	before := []figures.Row{row(8, 9, 10)}
	for _, c := range []struct {
		after figures.Row
		moved bool
	}{{row(12, 13, 14), true}, {row(8, 9, 9.5), false}, {row(8.5, 13, 14), false}, {row(5, 6, 7), true}} {
		all := figures.Merge(before, []figures.Row{c.after})
		if len(all) != 1 || (all[0].Was != 0) != c.moved {
			t.Errorf("%v after %v: %+v", c.after.Ours, before[0].Ours, all)
		}
		if got := strings.Contains(figures.Page(all, ""), "moved from 0.9"); got != c.moved {
			t.Errorf("%v: the page says so: %t", c.after.Ours, got)
		}
	}
	other := row(1, 2, 3)
	other.Work = "another"
	if all := figures.Merge(before, []figures.Row{other}); len(all) != 2 {
		t.Errorf("a run of one row took the others away: %v", all)
	}
}

func TestExponent(t *testing.T) {
	x := []float64{1, 10, 100, 1000}
	for _, want := range []float64{0, 1, 2} {
		var y []float64
		for _, v := range x {
			y = append(y, 3*math.Pow(v, want))
		}
		if got := figures.Exponent(x, y); math.Abs(got-want) > 1e-9 {
			t.Errorf("exponent %v, want %v", got, want)
		}
	}
}

// What Add wrote is what the command reads, and the charts are XML.
func TestFromAddToCharts(t *testing.T) {
	name := filepath.Join(t.TempDir(), "rows")
	t.Setenv(figures.File, name)
	figures.Add(t, row(1, 2, 3))
	curve := figures.Row{Group: "Edge", Work: "growth", Unit: "ms", Ours: []float64{1, 2}, X: []float64{1, 10}, Of: "tokens"}
	figures.Add(t, curve)
	rows, err := figures.Added(name)
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v %v", rows, err)
	}
	dir := t.TempDir()
	run := figures.Run{Machine: "m", Rows: rows}
	if err := run.Save(dir); err != nil {
		t.Fatal(err)
	}
	if again, err := figures.Load(dir); err != nil || len(again.Rows) != 2 {
		t.Errorf("%+v %v", again, err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "bench-edge.svg"))
	for d := xml.NewDecoder(strings.NewReader(string(svg))); err == nil; {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

// The committed table and charts are what the committed data say.
func TestCommittedFiles(t *testing.T) {
	dir := filepath.Join(rig.Root(t), "docs", "figures")
	run, err := figures.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Rows) == 0 {
		t.Skip("not on this machine: no figures are committed yet; make bench writes them")
	}
	files, err := run.Files()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("docs/figures/%s is not what bench.json says (%v): make bench", name, err)
		}
	}
}

// The command makes table, data and charts of what the benchmarks report.
func TestMakeBench(t *testing.T) {
	cmd := exec.Command("make", "bench", "ONLY=start", "SHORT=1")
	cmd.Dir = rig.Root(t)
	out, err := cmd.CombinedOutput()
	m := regexp.MustCompile(`2 rows: (.*/)bench\.md`).FindSubmatch(out)
	if err != nil || m == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	dir := string(m[1])
	t.Cleanup(func() { os.RemoveAll(dir) })
	page, err := os.ReadFile(dir + "bench.md")
	if err != nil || !strings.Contains(string(page), "| sandboxd, start to ready, self-test included |") {
		t.Errorf("%v\n%s", err, page)
	}
	if run, err := figures.Load(dir); err != nil || len(run.Rows) != 2 {
		t.Errorf("%+v %v", run, err)
	}
	if _, err := os.Stat(dir + "bench-start.svg"); err != nil {
		t.Error(err)
	}
	cmd = exec.Command("make", "bench", "ONLY=nothing", "SHORT=1")
	cmd.Dir = rig.Root(t)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "there are: edge") {
		t.Errorf("an unknown name: %v %s", err, out)
	}
}
