package edge

import (
	"os/exec"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The plugin's fuzz targets run for 20 seconds each, for ten minutes each in a
// soak. What they find is kept in plugin/testdata/fuzz and is a test from then on.
func TestFuzzTargetsSoak(t *testing.T) {
	long := "20s"
	if soak {
		long = "10m"
	}
	for _, target := range []string{"FuzzBody", "FuzzEndpoint", "FuzzAuthorization"} {
		t.Run(target, func(t *testing.T) {
			cmd := exec.Command("go", "test", "-run=^$", "-fuzz=^"+target+"$", "-fuzztime="+long, "./plugin")
			cmd.Dir = rig.Root(t)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
