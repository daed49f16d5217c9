package main

import (
	"bytes"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// fuzzing returns one gate for each fuzz target of the modules, each for the given
// time. Seeds and kept corpora run in the unit gate as well.
func fuzzing(root string, each time.Duration) (all []gate) {
	for _, module := range tools.Modules(root) {
		for _, target := range targets(module) {
			all = append(all, gate{name: "fuzz " + target.name, run: func(s *sheet) count { return target.fuzz(s, each) }})
		}
	}
	return all
}

// shortRound is the gate of CI: every target for a few seconds.
func shortRound(s *sheet, root string) (n count) {
	for _, g := range fuzzing(root, 2*time.Second) {
		n.add(g.run(s))
	}
	return n
}

type target struct{ module, pkg, name string }

// targets lists the fuzz targets of a module without building a test of it: the
// names stand at the beginning of a line.
func targets(module string) (all []target) {
	cmd := exec.Command("grep", "-rnoE", "--include=*_test.go", "--exclude-dir=vendor", "--exclude-dir=node_modules", `^func Fuzz\w+`, ".")
	cmd.Dir = module
	out, _ := cmd.Output() // exit code 1: there are none
	for line := range strings.Lines(string(out)) {
		file, rest, _ := strings.Cut(line, ":")
		_, name, _ := strings.Cut(strings.TrimSpace(rest), "func ")
		pkg := "./" + filepath.Dir(file)
		if nested(module, pkg) {
			continue
		}
		all = append(all, target{module, pkg, name})
	}
	return all
}

// nested reports whether a package belongs to a module inside this one.
func nested(module, pkg string) bool {
	for dir := pkg; dir != "." && dir != "./."; dir = filepath.Dir(dir) {
		if tools.IsModule(filepath.Join(module, dir)) {
			return true
		}
	}
	return false
}

func (t target) fuzz(s *sheet, each time.Duration) count {
	cmd := exec.Command("go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+each.String(), t.pkg)
	cmd.Dir = t.module
	out, err := cmd.CombinedOutput()
	// The fuzzer's own end is reported as a failure now and then (golang/go#75804).
	flaw := bytes.Contains(out, []byte("context deadline exceeded")) && !bytes.Contains(out, []byte("Failing input"))
	if err != nil && !flaw {
		s.say("FAIL %s %s\n%s", t.pkg, t.name, out)
		s.failures = append(s.failures, t.pkg+" "+t.name)
		return count{failed: 1}
	}
	return count{passed: 1}
}
