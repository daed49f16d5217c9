package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

var figures bool // say what tests that passed logged

// timing is how long one test took, its subtests included.
type timing struct {
	seconds float64
	name    string
}

// slowest returns the n tests that took longest, subtests left out.
func slowest(n int, sheets []*sheet) (slow []timing) {
	for _, s := range sheets {
		slow = append(slow, s.slow...)
	}
	slices.SortFunc(slow, func(a, b timing) int { return cmp.Compare(b.seconds, a.seconds) })
	return slow[:min(n, len(slow))]
}

// event is one line of `go test -json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// goTest runs `go test -json` in dir and prints what a person needs of it.
func (s *sheet) goTest(dir string, args ...string) count {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	return s.testResults(cmd)
}

// goTestAs builds the tests of a package here and runs them as another user, in a
// copy of the checkout: the user may be unable to reach this one.
func (s *sheet) goTestAs(root, uid, pkg string) count {
	home, err := os.MkdirTemp("", "sallyport-test-")
	if err != nil {
		return s.failed(pkg, err)
	}
	defer os.RemoveAll(home)
	checkout, bin := filepath.Join(home, "sallyport"), filepath.Join(home, "package.test")
	err = errors.Join(
		tools.CopyCheckout(checkout),
		quiet(root, "go", "test", "-c", "-o", bin, pkg),
		quiet("", "chown", "-R", uid+":"+uid, home),
	)
	if err != nil {
		return s.failed(pkg, err)
	}
	cmd := exec.Command("go", "tool", "test2json", "-t", "-p", pkg+" as "+uid,
		"setpriv", "--reuid="+uid, "--regid="+uid, "--clear-groups", "--inh-caps=-all",
		"env", "HOME="+home, bin, "-test.v=test2json", "-test.timeout=20m")
	cmd.Dir = filepath.Join(checkout, pkg)
	return s.testResults(cmd)
}

// testResults runs a command that writes test events, prints the output of what
// failed or was skipped and each package's time, and counts.
func (s *sheet) testResults(cmd *exec.Cmd) (n count) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return s.failed("go test", err)
	}
	cmd.Stderr = s
	if err := cmd.Start(); err != nil {
		return s.failed("go test", err)
	}
	n = s.read(out)
	if err := cmd.Wait(); err != nil && n.failed == 0 {
		n.add(s.failed(strings.Join(cmd.Args, " "), err))
	}
	return n
}

func (s *sheet) read(events io.Reader) (n count) {
	output := map[string]*strings.Builder{}
	failedIn := map[string]int{}
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return n
		}
		var e event
		if json.Unmarshal(line, &e) != nil {
			s.Write(line) // a build's complaint
			continue
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output":
			if output[key] == nil {
				output[key] = &strings.Builder{}
			}
			output[key].WriteString(e.Output)
		case "build-output":
			s.say("%s", e.Output)
		case "pass", "fail", "skip":
			n.add(s.ended(e, output[key], failedIn))
			delete(output, key)
			if e.Test == "" && e.Action == "fail" {
				s.unfinished(output, e.Package)
			}
		}
	}
}

// unfinished prints what those tests of a package wrote that never ended: it
// timed out or crashed.
func (s *sheet) unfinished(output map[string]*strings.Builder, pkg string) {
	for key, text := range output {
		if strings.HasPrefix(key, pkg+" ") {
			s.say("UNFINISHED %s\n%s", key, text)
			delete(output, key)
		}
	}
}

// ended counts one event that ends a test or a package.
func (s *sheet) ended(e event, output *strings.Builder, failedIn map[string]int) (n count) {
	text := ""
	if output != nil {
		text = output.String()
	}
	if e.Test != "" && !strings.Contains(e.Test, "/") {
		s.slow = append(s.slow, timing{e.Elapsed, e.Package + " " + e.Test})
	}
	switch {
	case e.Test == "" && e.Action == "fail":
		s.say("FAIL %s (%.0f s)\n", e.Package, e.Elapsed)
		if failedIn[e.Package] == 0 { // it did not build, or it ended before its tests
			s.say("%s", text)
			n.failed++
			s.failures = append(s.failures, e.Package)
		}
	case e.Test == "" && e.Action == "pass":
		s.say("ok   %s (%.0f s)\n", e.Package, e.Elapsed)
	case e.Test == "": // no tests
	case e.Action == "pass":
		n.passed++
		if figures {
			s.say("%s", said(text, 1000))
		}
	case e.Action == "skip" && elsewhere.MatchString(text):
		s.say("not here: %s %s\n%s", e.Package, e.Test, said(text, 2))
	case e.Action == "skip":
		n.skipped++
		s.say("SKIP %s %s\n%s", e.Package, e.Test, text)
	default:
		n.failed++
		failedIn[e.Package]++
		s.failures = append(s.failures, strings.TrimSuffix(e.Package+" "+e.Test+"\n"+said(text, 5), "\n"))
		s.say("FAIL %s %s\n%s", e.Package, e.Test, text)
	}
	return n
}

// elsewhere is what a test says that this kernel cannot run, or that runs as a part of
// another one: no failure of the machine's preparation, and so none of CI.
var elsewhere = regexp.MustCompile(`(not on this machine|not by itself): `)

var ownLine = regexp.MustCompile(`(?m)^ +\w+_test\.go:\d+: .*\n`)

// said returns the first lines that a test logged itself: what the processes that
// it started wrote can be a thousand times as long.
func said(text string, most int) string {
	return strings.Join(ownLine.FindAllString(text, most), "")
}
