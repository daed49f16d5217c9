package edge

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// outOfTime is the whole verdict of a fuzzer that found nothing: before Go 1.27 it
// now and then takes the end of its time for a failure (golang/go#75804).
var outOfTime = regexp.MustCompile(`(?m)^--- FAIL: Fuzz\w+ \(.*\)\n    context deadline exceeded\nFAIL$`)

// The plugin's fuzz targets run for 20 seconds each, for ten minutes each in a
// soak. What they find is kept in plugin/testdata/fuzz and is a test from then on.
func TestFuzzTargetsSoak(t *testing.T) {
	long := "20s"
	targets := []string{"FuzzBody", "FuzzEndpoint", "FuzzAuthorization"}
	if soak {
		long = "10m"
		targets = append(targets, "FuzzNarrowed", "FuzzEgressRule")
	}
	for _, target := range targets {
		t.Run(target, func(t *testing.T) {
			cmd := exec.Command("go", "test", "-timeout=0", "-run=^$", "-fuzz=^"+target+"$", "-fuzztime="+long, "./plugin")
			cmd.Dir = rig.Root(t)
			out, err := cmd.CombinedOutput()
			if err != nil && !outOfTime.Match(out) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
