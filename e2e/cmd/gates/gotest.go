package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// event is one line of `go test -json`.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// goTest runs `go test -json` in dir and prints what a person needs of it.
func goTest(dir string, args ...string) count {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Dir = dir
	return testResults(cmd)
}

// goTestAs builds the tests of the packages here and runs them as another user.
func goTestAs(root, uid, pattern string) (sum count) {
	out, err := exec.Command("go", "list", "-C", root, "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}", pattern).Output()
	if err != nil {
		fmt.Println("go list:", err)
		return count{failed: 1}
	}
	for folder := range strings.FieldsSeq(string(out)) {
		n, err := packageAs(uid, folder)
		if err != nil {
			fmt.Println(err)
			n.failed++
		}
		sum.add(n)
	}
	return sum
}

// packageAs runs one package's tests in a copy of its folder: the user may be
// unable to reach the checkout.
func packageAs(uid, folder string) (count, error) {
	home, err := os.MkdirTemp("", "sallyport-test-")
	if err != nil {
		return count{}, err
	}
	defer os.RemoveAll(home)
	dir, bin := filepath.Join(home, filepath.Base(folder)), filepath.Join(home, "package.test")
	err = errors.Join(
		quiet(folder, "go", "test", "-c", "-o", bin, "."),
		quiet("", "cp", "-r", folder, dir),
		quiet("", "chown", "-R", uid+":"+uid, home),
	)
	if err != nil {
		return count{}, err
	}
	cmd := exec.Command("go", "tool", "test2json", "-t", "-p", folder+" as "+uid,
		"setpriv", "--reuid="+uid, "--regid="+uid, "--clear-groups", "--inh-caps=-all",
		"env", "HOME="+home, bin, "-test.v=test2json", "-test.timeout=20m")
	cmd.Dir = dir
	return testResults(cmd), nil
}

// testResults runs a command that writes test events, prints the output of what
// failed or was skipped and each package's time, and counts.
func testResults(cmd *exec.Cmd) (n count) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Println(err)
		return count{failed: 1}
	}
	cmd.Stderr = os.Stdout
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return count{failed: 1}
	}
	n = read(out)
	if err := cmd.Wait(); err != nil && n.failed == 0 {
		fmt.Println(strings.Join(cmd.Args, " "), err)
		n.failed++
	}
	return n
}

func read(events io.Reader) (n count) {
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
			os.Stdout.Write(line) // a build's complaint
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
			fmt.Print(e.Output)
		case "pass", "fail", "skip":
			n.add(result(e, output[key], failedIn))
			delete(output, key)
		}
	}
}

// result counts one event that ends a test or a package.
func result(e event, output *strings.Builder, failedIn map[string]int) (n count) {
	text := ""
	if output != nil {
		text = output.String()
	}
	switch {
	case e.Test == "" && e.Action == "fail":
		fmt.Printf("FAIL %s (%.0f s)\n", e.Package, e.Elapsed)
		if failedIn[e.Package] == 0 { // it did not build, or it ended before its tests
			fmt.Print(text)
			n.failed++
		}
	case e.Test == "" && e.Action == "pass":
		fmt.Printf("ok   %s (%.0f s)\n", e.Package, e.Elapsed)
	case e.Test == "": // no tests
	case e.Action == "pass":
		n.passed++
	case e.Action == "skip":
		n.skipped++
		fmt.Printf("SKIP %s %s\n%s", e.Package, e.Test, text)
	default:
		n.failed++
		failedIn[e.Package]++
		fmt.Printf("FAIL %s %s\n%s", e.Package, e.Test, text)
	}
	return n
}
