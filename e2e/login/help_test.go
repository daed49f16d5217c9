package login_test

import (
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The login's commands answer as those of the other binaries do.
func TestHelp(t *testing.T) { rig.CheckHelp(t, "sallyport-login") }
