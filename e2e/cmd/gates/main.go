// Command gates runs the repository's gates one after the other, says how long
// each took, and ends with the sum of all tests in one line. With -soak it runs the
// long figures instead, and prints them.
package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

func main() {
	only := flag.String("only", "", "comma-separated names of gates; default: all")
	soak := flag.Bool("soak", false, "the long figures: hours of load")
	long := flag.Duration("for", 10*time.Minute, "with -soak: how long everything runs mixed")
	quick := flag.Bool("quick", false, "lint and unit tests without the race detector: under 3 minutes")
	fuzz := flag.Duration("fuzz", 0, "fuzz each target for this long, such as 10m")
	lanes := flag.Int("lanes", usualLanes(), "how many gates may run side by side")
	flag.Parse()
	root, err := tools.Root()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	all := gates(root)
	switch {
	case *soak:
		all = soaks(root, *long)
	case *fuzz > 0:
		all = fuzzing(root, *fuzz)
	case *quick:
		all = quickGates(root)
	case *only == "":
		survey()
	}
	chosen, err := choose(all, *only)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	start := time.Now()
	sum, sheets := runAll(chosen, *lanes)
	for _, t := range slowest(10, sheets) {
		fmt.Printf("slow: %5.1f s %s\n", t.seconds, t.name)
	}
	for _, s := range sheets {
		for _, failure := range s.failures {
			fmt.Println("FAILED:", failure)
		}
	}
	fmt.Printf("all gates: %.1f min\n%s\n", time.Since(start).Minutes(), sum)
	if sum.failed > 0 || os.Getenv("CI") == "true" && sum.skipped > 0 {
		os.Exit(1)
	}
}

// usualLanes is two; in CI one, where a slow answer is better than a doubtful one.
func usualLanes() int {
	if os.Getenv("CI") == "true" {
		return 1
	}
	return 2
}

func choose(all []gate, only string) ([]gate, error) {
	if only == "" {
		return all, nil
	}
	var chosen []gate
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(g gate) bool { return g.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no gate is called %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// count sums the results of tests; a gate that is not a test counts as one.
type count struct{ passed, failed, skipped int }

func (c *count) add(n count) {
	c.passed += n.passed
	c.failed += n.failed
	c.skipped += n.skipped
}

func (c count) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
}
