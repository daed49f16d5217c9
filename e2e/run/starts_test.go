package run_test

import (
	"os/exec"
	"regexp"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The command that compares what builds cost before anybody calls them still starts
// both kinds, and measures something.
func TestStarts(t *testing.T) {
	rig.NeedRoot(t) // to read their memory
	cmd := exec.Command("go", "run", "./cmd/starts", "-n", "1", "serve="+rig.Binary(t, "sandboxd"), "run="+rig.Binary(t, "sallyport-run"))
	cmd.Dir = ".."
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, what := range []string{"ready, ms", "RSS at rest, MB", "PSS at rest, MB"} {
		if n := len(regexp.MustCompile(what+` +median +[0-9]*[1-9][0-9.]*,`).FindAll(out, -1)); n != 2 {
			t.Errorf("%s: %d of 2 measured", what, n)
		}
	}
}
