package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// survey says within seconds what this machine can run, what will be skipped and
// why, and about how long it takes on two cores.
func survey() {
	fmt.Println("This machine:")
	for _, need := range []struct {
		name, lack string
		there      bool
	}{
		{"C compiler", "unit tests run without the race detector", has("cc", "--version") || has("gcc", "--version")},
		{"root", "tests that change users or make namespaces are skipped", os.Geteuid() == 0},
		{"Docker engine", "tests with containers are skipped: start one, or let .ci/run do it", has("docker", "info")},
		{"node and npm", "tests with real clients and third-party servers are skipped", has("node", "--version") && has("npm", "--version")},
		{"Chromium", "tests of pages in a browser are skipped", has("chromium", "--version")},
		{"Traefik in the cache", "it is built from its Go module first: 3 to 12 minutes, once", tools.Cached("traefik-" + tools.TraefikVersion)},
		{"Compose in the cache", "it is built from its Go module first: 2 to 4 minutes, once", tools.Cached("compose-")},
	} {
		word, note := "yes", ""
		if !need.there {
			word, note = "NO ", ": "+need.lack
		}
		fmt.Printf("  %s  %s%s\n", word, need.name, note)
	}
	fmt.Println("All gates take 25 to 40 minutes on two cores with a full cache; make test-quick under 3.")
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
