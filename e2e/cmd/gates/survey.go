package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// need is something that tests can do without, not all of them.
type need struct {
	name    string
	there   bool
	minutes int // that it adds on two cores, where it is there
	lack    string
	later   int // minutes that its lack adds
}

// survey says within seconds what this machine can run, what will be skipped and
// why, and about how long it takes on two cores.
func survey() {
	engine, node := has("docker", "info"), has("node", "--version") && has("npm", "--version")
	needs := []need{
		{"C compiler", has("cc", "--version") || has("gcc", "--version"), 2, "unit tests run without the race detector", 0},
		{"root", os.Geteuid() == 0, 3, "tests that change users or make namespaces are skipped", 0},
		{"Docker engine", engine, 8, "tests with containers are skipped: start one, or let .ci/run do it", 0},
		{"node and npm", node, 2, "tests with real clients and third-party servers are skipped", 0},
		{"Chromium", has("chromium", "--version"), 0, "tests of pages in a browser are skipped", 0},
		{"Traefik in the cache", tools.Cached("traefik-" + tools.TraefikVersion), 0, "it is built from its Go module meanwhile, once", 4},
	}
	if engine {
		needs = append(needs, need{"Compose in the cache", tools.Cached("compose-"), 0, "it is built from its Go module first, once", 3})
	}
	minutes := 10
	fmt.Println("This machine:")
	for _, n := range needs {
		if n.there {
			fmt.Println("  yes ", n.name)
			minutes += n.minutes
			continue
		}
		fmt.Printf("  NO   %s: %s\n", n.name, n.lack)
		minutes += n.later
	}
	if os.Getenv("CI") == "true" { // one gate at a time
		minutes += minutes / 2
	}
	fmt.Printf("All gates take about %d minutes on two cores; make test-quick under 3.\n", minutes)
}

func has(name string, args ...string) bool {
	if _, err := exec.LookPath(name); err != nil {
		return false
	}
	cmd := exec.Command(name, args...)
	cmd.WaitDelay = time.Second
	timer := time.AfterFunc(5*time.Second, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	return cmd.Run() == nil
}
