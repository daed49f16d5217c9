// Command bench runs the benchmarks and makes docs/figures/bench.md, bench.json and
// the charts of what they report (make bench).
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// benches are the benchmarks by the name that -only takes: a package of e2e and a test.
var benches = []struct{ name, folder, test string }{
	{"edge", "edge", "TestBenchCost"},
	{"stream", "edge", "TestBenchStream"},
	{"hostile", "edge", "TestBenchHostile"},
	{"tokens", "edge", "TestBenchTokens"},
	{"bodies", "edge", "TestBenchBodies"},
	{"proxies", "bench", "TestBenchTraefik"},
	{"read", "bench", "TestBenchReadFile"},
	{"sizes", "bench", "TestBenchSizes"},
	{"start", "bench", "TestBenchStart"},
	{"command", "sandbox", "TestBenchShell"},
	{"hub", "hub", "TestBenchHub"},
	{"wake", "hub", "TestBenchWake"},
	{"servers", "hub", "TestBenchServers"},
	{"sessions", "bench", "TestBenchIdleSessions"},
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
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s; rows of these may be missing or old", strings.Join(failed, ", "))
	}
	return nil
}

// measure runs the chosen benchmarks one after the other, whatever became of the one
// before, and returns the names of those that failed.
func measure(e2e, only string, short bool, rowsFile string) (failed []string, err error) {
	chosen := strings.Split(only, ",")
	ran := 0
	for _, b := range benches {
		if only != "" && !contains(chosen, b.name) {
			continue
		}
		ran++
		fmt.Printf("=== %s\n", b.name)
		begin := time.Now()
		cmd := exec.Command("go", "test", "-tags=bench", "-count=1", "-timeout=60m", "-v", "-run=^"+b.test+"$", "./"+b.folder)
		cmd.Dir = e2e
		cmd.Env = append(os.Environ(), figures.File+"="+rowsFile)
		if short {
			cmd.Env = append(cmd.Env, figures.Smoke+"=1")
		}
		said, err := cmd.CombinedOutput()
		os.Stdout.Write(said)
		if err != nil || strings.Contains(string(said), "SKIPPED, missing") {
			failed = append(failed, b.name)
		}
		fmt.Printf("--- %s: %.1f min\n", b.name, time.Since(begin).Minutes())
	}
	if ran == 0 {
		return nil, fmt.Errorf("no benchmark is called %q; there are: %s", only, names())
	}
	return failed, nil
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
