package jail_test

import (
	"testing"

	"github.com/sallyport-dev/sallyport/jail"
)

// A command that used up the processes of all is told so; one that did not,
// beside nobody else, is not.
func TestMetLimit(t *testing.T) {
	j, _ := newJail(t, jail.Full)
	if res, _, _ := run(t, j, jail.Command{Args: sh("sleep 1; exit 1")}); res.MetLimit {
		t.Errorf("%+v", res)
	}
	const many = "for i in $(seq 5000); do sleep 900 & done 2>/dev/null; exit 1"
	if res, _, _ := run(t, j, jail.Command{Args: sh(many), Timeout: long}); !res.MetLimit {
		t.Errorf("%+v", res)
	}
}
