//go:build container

package jail_test

import (
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/jail"
)

// What the kernel kills for want of memory is said so, and the server lives.
func TestOutOfMemory(t *testing.T) {
	j, _ := newJail(t, jail.Full)
	res, _, _ := run(t, j, jail.Command{Args: sh("tail /dev/zero"), Timeout: long})
	if res.OOMKilled == nil || !*res.OOMKilled || res.TimedOut {
		t.Errorf("%+v", res)
	}
	res, out, _ := run(t, j, jail.Command{Args: sh("echo alive")})
	if out != "alive\n" || res.OOMKilled == nil || *res.OOMKilled {
		t.Errorf("%+v %q", res, out)
	}
}

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
