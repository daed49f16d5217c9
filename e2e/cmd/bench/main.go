// Command bench runs the benchmarks and makes docs/figures/bench.md, bench.json and
// the charts of what they report (make bench).
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// bench is a benchmark by the name that -only takes: a package of e2e, a test, and about
// how many seconds it takes on two quiet cores once it is built.
type bench struct {
	name, folder, test string
	seconds            int
}

var benches = []bench{
	{"edge", "edge", "TestBenchCost", 60},
	{"stream", "edge", "TestBenchStream", 30},
	{"hostile", "edge", "TestBenchHostile", 30},
	{"tokens", "edge", "TestBenchTokens", 40},
	{"bodies", "edge", "TestBenchBodies", 90},
	{"proxies", "bench", "TestBenchTraefik", 80},
	{"read", "bench", "TestBenchReadFile", 90},
	{"sizes", "bench", "TestBenchSizes", 20},
	{"start", "bench", "TestBenchStart", 60},
	{"command", "sandbox", "TestBenchShell", 50},
	{"egress", "egress", "TestBenchEgress", 40},
	{"hub", "hub", "TestBenchHub", 220},
	{"wake", "hub", "TestBenchWake", 60},
	{"servers", "hub", "TestBenchServers", 30},
	{"calls", "bench", "TestBenchSessions", 60},
	{"container", "bench", "TestBenchCrowd", 120},
	{"sessions", "bench", "TestBenchIdleSessions", 600},
}

func main() {
	only := flag.String("only", "", "comma-separated names of benchmarks; default: all")
	short := flag.Bool("short", false, "a smoke run: few rounds, small sizes, nothing kept in docs")
	out := flag.String("o", "", "folder for the table, data and charts; default: docs/figures, in a smoke run a new one")
	flag.Parse()
	if err := run(*only, *short, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(only string, short bool, out string) error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "sallyport-bench-")
	if err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(root, "docs", "figures")
		if short {
			out = temp
		}
	}
	rowsFile := filepath.Join(temp, "rows")
	failed, err := measure(filepath.Join(root, "e2e"), only, short, rowsFile)
	if err != nil {
		return err
	}
	rows, err := figures.Added(rowsFile)
	if err != nil {
		return err
	}
	for i := range rows {
		rows[i].Made = time.Now().Format(time.DateOnly)
	}
	before, err := figures.Load(out)
	if err != nil {
		return err
	}
	if err := (figures.Run{Machine: machine(), Rows: figures.Merge(before.Rows, rows)}).Save(out); err != nil {
		return err
	}
	fmt.Printf("%d rows: %s\n", len(rows), filepath.Join(out, "bench.md"))
	if out == filepath.Join(root, "docs", "figures") {
		quote(root)
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s; rows of these may be missing or old", strings.Join(failed, ", "))
	}
	return nil
}

// quote puts the figures that README quotes into it. What is missing yet is said, and
// is no reason to lose a run.
func quote(root string) {
	cmd := exec.Command("go", "test", "-count=1", "-run=TestReadmeFigures", ".", "-update")
	cmd.Dir = root
	if said, err := cmd.CombinedOutput(); err != nil {
		fmt.Printf("README.md's figures: %v\n%s", err, said)
	}
}

// measure runs the chosen benchmarks one after the other, whatever became of the one
// before, and returns the names of those that failed.
func measure(e2e, only string, short bool, rowsFile string) (failed []string, err error) {
	chosen, seconds := choose(only)
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no benchmark is called %q; there are: %s", only, names())
	}
	fmt.Printf("%d benchmarks, about %.0f minutes on two quiet cores, and the build\n", len(chosen), float64(seconds)/60)
	all := time.Now()
	for i, b := range chosen {
		fmt.Printf("=== %d of %d: %s, about %d s; %.1f min so far\n", i+1, len(chosen), b.name, b.seconds, time.Since(all).Minutes())
		begin := time.Now()
		cmd := exec.Command("go", "test", "-tags=bench", "-count=1", "-timeout=30m", "-v", "-run=^"+b.test+"$", "./"+b.folder)
		cmd.Dir = e2e
		cmd.Env = append(os.Environ(), figures.File+"="+rowsFile)
		if short {
			cmd.Env = append(cmd.Env, figures.Smoke+"=1")
		}
		said := &strings.Builder{}
		cmd.Stdout = io.MultiWriter(os.Stdout, said) // at once: a person waits
		cmd.Stderr = cmd.Stdout
		if err := cmd.Run(); err != nil || strings.Contains(said.String(), "SKIPPED, missing") {
			failed = append(failed, b.name)
		}
		fmt.Printf("--- %s: %.1f min\n", b.name, time.Since(begin).Minutes())
	}
	return failed, nil
}

// choose returns the benchmarks that only names, all where it names none, and the
// seconds that they take together.
func choose(only string) (chosen []bench, seconds int) {
	named := strings.Split(only, ",")
	for _, b := range benches {
		if only == "" || contains(named, b.name) {
			chosen, seconds = append(chosen, b), seconds+b.seconds
		}
	}
	return chosen, seconds
}

func contains(all []string, name string) bool {
	for _, one := range all {
		if strings.TrimSpace(one) == name {
			return true
		}
	}
	return false
}

func names() string {
	var all []string
	for _, b := range benches {
		all = append(all, b.name)
	}
	return strings.Join(all, ", ")
}

// machine is one line about where the figures were made.
func machine() string {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease") // empty where it cannot be read
	load, _, _ := strings.Cut(read("/proc/loadavg"), " ")
	return fmt.Sprintf("Last run: %d processors (%s), Linux %s, %s, load %s at its end.", runtime.NumCPU(), processor(),
		strings.TrimSpace(string(kernel)), runtime.Version(), load)
}

func processor() string {
	for line := range strings.Lines(read("/proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func read(name string) string {
	data, _ := os.ReadFile(name) // empty where it cannot be read
	return string(data)
}
