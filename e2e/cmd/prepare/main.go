// Command prepare fills the cache: it makes now what the tests would otherwise
// make on first use.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

type step struct {
	name string
	do   func() error
}

func main() {
	docker := flag.Bool("docker", true, "make the base images and the compose command too")
	flag.Parse()
	steps := []step{
		{"traefik", path(tools.BuiltTraefik)},
		{"npm clients", npm("clients")},
		{"npm conformance", npm("conformance")},
		{"npm servers", npm("servers")},
		{"npm devtools", npm("devtools")},
	}
	if *docker {
		steps = append(steps, step{"compose", path(tools.Compose)}, step{"base images", tools.Images})
	}
	failed := false
	for _, step := range steps {
		start := time.Now()
		err := step.do()
		fmt.Printf("prepare: %-16s %6.1f s\n", step.name, time.Since(start).Seconds())
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

func path(make func() (string, error)) func() error {
	return func() error { _, err := make(); return err }
}

func npm(set string) func() error { return path(func() (string, error) { return tools.NPM(set) }) }
