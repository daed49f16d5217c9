package run_test

import (
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Every binary answers alike to -h, help, version and to what it does not know.
// (sallyport-run takes flags only; sallyport-login is in e2e/login.)
func TestEveryHelp(t *testing.T) {
	for _, name := range []string{"sandboxd", "sallyport", "sallyport-hub", "sallyport-dockerproxy", "sallyport-egress"} {
		t.Run(name, func(t *testing.T) { rig.CheckHelp(t, name) })
	}
}
