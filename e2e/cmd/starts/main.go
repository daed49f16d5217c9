// Command starts measures what a server costs before anybody calls it: from exec to
// the first answer, and its memory at rest.
//
//	go run ./cmd/starts [-n 10] serve=../bin/sandboxd run=../bin/sallyport-run
//
// Each argument is serve=COMMAND or run=COMMAND, where COMMAND may have words of its
// own ("serve=/old/sandboxd serve"). Memory is the sum over the process and its
// children two seconds after the first answer: RSS counts pages that they share once for
// each, PSS once. It needs root to read the memory of a process that is not dumpable.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	n := flag.Int("n", 10, "starts of each, in turn")
	flag.Parse()
	all := map[string][]sample{}
	for range *n {
		for _, arg := range flag.Args() {
			s, err := measure(arg)
			if err != nil {
				fmt.Fprintf(os.Stderr, "starts: %s: %v\n", arg, err)
				os.Exit(1)
			}
			all[arg] = append(all[arg], s)
		}
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d starts of each, load %s", *n, load)
	for _, arg := range flag.Args() {
		fmt.Println(arg)
		show(all[arg], "ready, ms", func(s sample) float64 { return float64(s.ready.Microseconds()) / 1000 })
		show(all[arg], "RSS at rest, MB", func(s sample) float64 { return float64(s.rss) / 1024 })
		show(all[arg], "PSS at rest, MB", func(s sample) float64 { return float64(s.pss) / 1024 })
	}
}

// sample is one start. Memory is in KiB, of so many processes.
type sample struct {
	ready    time.Duration
	rss, pss int
}

func show(all []sample, what string, of func(sample) float64) {
	var values []float64
	for _, s := range all {
		values = append(values, of(s))
	}
	slices.Sort(values)
	fmt.Printf("  %-16s median %7.1f, lowest %7.1f, highest %7.1f\n", what, values[len(values)/2], values[0], values[len(values)-1])
}

func measure(arg string) (s sample, err error) {
	kind, line, _ := strings.Cut(arg, "=")
	words := strings.Fields(line)
	if len(words) == 0 || kind != "serve" && kind != "run" {
		return s, fmt.Errorf("write serve=COMMAND or run=COMMAND")
	}
	if words[0], err = filepath.Abs(words[0]); err != nil {
		return s, err
	}
	dir, err := os.MkdirTemp("", "sallyport-starts-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	work := filepath.Join(dir, "workspace")
	if err := os.Mkdir(work, 0o755); err != nil {
		return s, err
	}
	os.Chmod(dir, 0o755)
	addr := free()
	if kind == "run" {
		words = append(words, "-addr", addr)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "MCP_ADDR="+addr, "MCP_WORKSPACE="+work, "MCP_AUTH_TOKEN="+strings.Repeat("t", 64))
	var said strings.Builder
	cmd.Stderr = &said
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return s, err
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}()
	for !answers(addr) {
		if time.Since(begin) > 30*time.Second {
			return s, fmt.Errorf("no answer within 30 s: %s", said.String())
		}
		time.Sleep(time.Millisecond)
	}
	s.ready = time.Since(begin)
	time.Sleep(2 * time.Second)
	for _, pid := range family(cmd.Process.Pid) {
		s.rss += field(pid, "status", "VmRSS:")
		s.pss += field(pid, "smaps_rollup", "Pss:")
	}
	return s, nil
}

func free() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ""
	}
	defer l.Close()
	return l.Addr().String()
}

// answers asks once; any answer will do, since make run shows no /healthz.
func answers(addr string) bool {
	c := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := c.Get("http://" + addr + "/healthz")
	if err != nil {
		return false
	}
	return res.Body.Close() == nil
}

// family is a process with all its children.
func family(pid int) []int {
	all := []int{pid}
	raw, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range raw {
		text, _ := os.ReadFile(file)
		for _, word := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(word)
			all = append(all, family(child)...)
		}
	}
	return all
}

// field is a number of a file in /proc, in KiB.
func field(pid int, file, name string) int {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	_, rest, _ := strings.Cut("\n"+string(raw), "\n"+name)
	n, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return n
}
