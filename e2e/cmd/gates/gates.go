package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// gate is one thing that must hold before a change lands.
type gate struct {
	name string
	run  func() count
}

// areas are the end-to-end gates: the packages of e2e that belong together. A
// package that no area names belongs to the first.
var areas = []struct {
	name     string
	packages []string
}{
	{"main", nil},
	{"edge", []string{"edge"}},
	{"sandbox", []string{"sandbox"}},
	{"hub", []string{"hub", "proxy"}},
	{"doctor", []string{"doctor"}},
	{"docker", []string{"docker"}},
	{"conformance", []string{"conformance"}},
	{"login", []string{"login"}},
	{"egress", []string{"egress"}}, // and root's own, which start sandboxd and containers too
}

// egressTests start sandboxd, containers and package managers, so they come with
// the end-to-end tests and not with the unit tests.
var egressTests = []string{"./egress", "./jail/nettest"}

// gates returns them in the order in which they fail fastest.
func gates(root string) []gate {
	e2e := filepath.Join(root, "e2e")
	all := []gate{
		{"gofmt", check("gofmt", func() error { return gofmt(root) })},
		{"vet", check("vet", func() error {
			return errors.Join(quiet(root, "go", "vet", "./..."), quiet(e2e, "go", "vet", "-tags=bench", "./..."),
				quiet(filepath.Join(root, "login"), "go", "vet", "./..."))
		})},
		{"staticcheck", check("staticcheck", func() error { return staticcheck(root, filepath.Join(root, "login"), e2e) })},
		{"unit", func() count { return unit(root) }},
		{"fuzz", func() count { return shortRound(root) }},
		{"yaegi", func() count { return goTest(e2e, "-count=1", "-timeout=10m", "./yaegi") }},
		{"unprivileged", func() count { return unprivileged(root) }},
	}
	for i, area := range areas {
		all = append(all, gate{area.name, func() (n count) {
			if area.name == "egress" {
				n.add(goTest(root, append([]string{"-count=1", "-p=1", "-timeout=15m"}, egressTests...)...))
			}
			folders := area.packages
			if area.name == "login" { // its own module, whose tests start its real binary
				n.add(goTest(filepath.Join(root, "login"), "-count=1", "-timeout=10m", "./..."))
			}
			if i == 0 {
				folders = rest(e2e)
			}
			args := []string{"-count=1", "-p=2", "-timeout=20m"}
			for _, folder := range folders {
				args = append(args, "./"+folder)
			}
			n.add(goTest(e2e, args...))
			return n
		}})
	}
	return all
}

// quickGates are for the time between two edits. Most tests wait more than they
// compute, so three packages run at once; the longest are left to the whole run.
func quickGates(root string) []gate {
	return append(gates(root)[:2], gate{"unit", func() count { return goTest(root, "-short", "-p=3", "./...") }})
}

// rest lists the folders of tests that no other gate runs.
func rest(e2e string) (folders []string) {
	named := []string{"yaegi", "bench"} // a gate of its own; no gate at all (make bench)
	for _, area := range areas {
		named = append(named, area.packages...)
	}
	files, _ := filepath.Glob(filepath.Join(e2e, "*", "*_test.go")) // the pattern is well formed
	for _, file := range files {
		folder := filepath.Base(filepath.Dir(file))
		if !slices.Contains(named, folder) && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	return folders
}

// check makes a gate's run of something that holds or does not.
func check(name string, holds func() error) func() count {
	return func() count {
		if err := holds(); err != nil {
			fmt.Println(err)
			failures = append(failures, name)
			return count{failed: 1}
		}
		return count{passed: 1}
	}
}

// quiet runs a command and returns its output as the error.
func quiet(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

func gofmt(root string) error {
	cmd := exec.Command("git", "-c", "safe.directory="+root, "ls-files", "-z", "--", "*.go", ":!vendor")
	cmd.Dir = root
	names, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("git ls-files: %w", err)
	}
	fmtCmd := exec.Command("gofmt", append([]string{"-l"}, strings.Split(strings.TrimSuffix(string(names), "\x00"), "\x00")...)...)
	fmtCmd.Dir = root
	out, err := fmtCmd.CombinedOutput()
	if err == nil && len(bytes.TrimSpace(out)) > 0 {
		err = errors.New("not formatted")
	}
	if err != nil {
		return fmt.Errorf("gofmt: %w\n%s", err, out)
	}
	return nil
}

// staticcheck runs the version that e2e/go.mod pins, on both modules.
func staticcheck(modules ...string) error {
	find := exec.Command("go", "tool", "-n", "staticcheck")
	find.Dir = modules[len(modules)-1]
	bin, err := find.Output()
	if err != nil {
		return fmt.Errorf("go tool -n staticcheck: %w", err)
	}
	for _, dir := range modules {
		err = errors.Join(err, quiet(dir, strings.TrimSpace(string(bin)), "./..."))
	}
	return err
}

// unit runs the root module's tests, with the race detector where there is a C
// compiler. The jail's run by themselves: their fork bombs would starve other tests.
func unit(root string) (n count) {
	args := []string{"-race", "-count=1", "-timeout=20m"}
	if quiet(root, "cc", "--version") != nil && quiet(root, "gcc", "--version") != nil {
		fmt.Println("SKIPPED: the race detector needs a C compiler; testing without it")
		n.skipped++
		args = args[1:]
	}
	list := exec.Command("go", "list", "./...")
	list.Dir = root
	packages, err := list.Output()
	if err != nil {
		fmt.Println("go list:", err)
		return count{failed: 1}
	}
	const jail = "/jail"
	elsewhere := func(name string) bool {
		return strings.HasSuffix(name, jail) || slices.ContainsFunc(egressTests, func(test string) bool { return strings.HasSuffix(name, test[1:]) })
	}
	others := slices.DeleteFunc(strings.Fields(string(packages)), elsewhere)
	n.add(goTest(root, slices.Concat(args, others)...))
	n.add(goTest(root, append(args, "."+jail)...))
	return n
}

// unprivileged runs the kernel's tests once more as a user without any right:
// what root may do must not be what makes them pass. Nothing else runs as this one,
// so that they may count its processes.
func unprivileged(root string) count {
	if os.Geteuid() != 0 {
		return count{} // the unit gate was already that
	}
	return goTestAs(root, "61234", "./jail")
}
