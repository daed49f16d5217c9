//go:build container

package jail_test

import (
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/jail"
)

// Chains that fork and leave their session outlive a group. Nothing could stop
// them on a machine, so this is built only for a container that ends with them,
// as the last of its tests.
func TestChainsOutliveAGroup(t *testing.T) {
	j, dir := newJail(t, jail.Group)
	prog := program(t, dir)
	if _, err := j.Run(t.Context(), jail.Command{Args: []string{prog}, Env: []string{actVariable + "=hydra"}, Timeout: time.Second}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if len(asleep(prog)) == 0 {
			t.Error("no chain is alive")
		}
	}
}
