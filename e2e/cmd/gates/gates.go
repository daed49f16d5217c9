package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// gate is one thing that must hold before a change lands.
type gate struct {
	name   string
	run    func(s *sheet) count
	beside bool // may run while the one before it does
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

// gates returns them in the order in which they fail fastest. Most tests wait more
// than they compute, so some gates may run side by side; the jail's, with its fork
// bombs, only beside what may be starved.
func gates(root string) []gate {
	e2e := filepath.Join(root, "e2e")
	all := []gate{
		{name: "gofmt", run: check("gofmt", func() error { return gofmt(root) })},
		{name: "vet", run: check("vet", func() error {
			return errors.Join(quiet(root, "go", "vet", "./..."), quiet(e2e, "go", "vet", "-tags=bench", "./..."),
				quiet(filepath.Join(root, "login"), "go", "vet", "./..."))
		})},
		{name: "staticcheck", run: check("staticcheck", func() error { return staticcheck(root, filepath.Join(root, "login"), e2e) })},
		{name: "unit", run: func(s *sheet) count { return s.unit(root) }},
		{name: "traefik", run: traefik, beside: true},
		{name: "jail", run: func(s *sheet) count { return s.raced(root, "./jail") }},
		{name: "fuzz", run: func(s *sheet) (n count) { aside(func() { n = shortRound(s, root) }); return n }, beside: true},
		{name: "yaegi", run: func(s *sheet) count { return s.goTest(e2e, "-count=1", "-timeout=10m", "./yaegi") }},
		{name: "unprivileged", run: func(s *sheet) count { return s.unprivileged(root) }},
	}
	for i, area := range areas {
		all = append(all, gate{name: area.name, beside: i > 0, run: func(s *sheet) (n count) {
			if area.name == "egress" {
				n.add(s.goTest(root, append([]string{"-count=1", "-p=1", "-timeout=15m"}, egressTests...)...))
			}
			folders := area.packages
			if area.name == "login" { // its own module, whose tests start its real binary
				n.add(s.goTest(filepath.Join(root, "login"), "-count=1", "-timeout=10m", "./..."))
			}
			if i == 0 {
				folders = rest(e2e)
			}
			args := []string{"-count=1", "-p=2", "-timeout=20m"}
			for _, folder := range folders {
				args = append(args, "./"+folder)
			}
			n.add(s.goTest(e2e, args...))
			return n
		}})
	}
	return all
}

// traefik makes what most end-to-end tests need, where the cache lacks it.
func traefik(s *sheet) count {
	var err error
	aside(func() { _, err = tools.Traefik() })
	if err != nil {
		s.say("SKIPPED: tests behind Traefik, which could not be built: %v\n", err)
		return count{skipped: 1}
	}
	return count{passed: 1}
}

// aside does what may take long: what it starts gets only time that nothing else wants.
func aside(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with its priority
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
		do()
	}()
	<-done
}

// quickGates are for the time between two edits: three packages run at once, and
// the longest tests are left to the whole run.
func quickGates(root string) []gate {
	return append(gates(root)[:2], gate{name: "unit", run: func(s *sheet) count {
		return s.goTest(root, "-short", "-p=3", "./...")
	}})
}

// rest lists the folders of tests that no other gate runs.
func rest(e2e string) (folders []string) {
	folders = []string{"cmd/..."}
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
func check(name string, holds func() error) func(*sheet) count {
	return func(s *sheet) count {
		if err := holds(); err != nil {
			return s.failed(name, err)
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

// raced runs tests with the race detector, where there is a C compiler. Programs do not
// wait a second at their end for what other threads may still report.
func (s *sheet) raced(root string, args ...string) (n count) {
	os.Setenv("GORACE", "atexit_sleep_ms=0") // the name is well formed
	args = append([]string{"-race", "-count=1", "-timeout=20m"}, args...)
	if quiet(root, "cc", "--version") != nil && quiet(root, "gcc", "--version") != nil {
		s.say("SKIPPED: the race detector needs a C compiler; testing without it\n")
		n.skipped++
		args = args[1:]
	}
	n.add(s.goTest(root, args...))
	return n
}

// unit runs the root module's tests. The jail's run by themselves: their fork bombs
// would starve other tests.
func (s *sheet) unit(root string) count {
	list := exec.Command("go", "list", "./...")
	list.Dir = root
	packages, err := list.Output()
	if err != nil {
		return s.failed("go list", err)
	}
	elsewhere := func(name string) bool {
		return slices.ContainsFunc(append(egressTests, "./jail"), func(test string) bool { return strings.HasSuffix(name, test[1:]) })
	}
	others := slices.DeleteFunc(strings.Fields(string(packages)), elsewhere)
	return s.raced(root, others...)
}

// unprivileged runs the kernel's tests once more as a user without any right:
// what root may do must not be what makes them pass. Nothing else runs as this one,
// so that they may count its processes.
func (s *sheet) unprivileged(root string) count {
	if os.Geteuid() != 0 {
		return count{} // the jail's gate was already that
	}
	return s.goTestAs(root, "61234", "./jail")
}
