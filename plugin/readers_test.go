// Compiled only: the interpreter has no package outside the plugin's folder. It
// reads the second of these lines.

//go:build gc
// +build gc

package plugin

import (
	"math/rand"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/strictjson/jsontest"
)

// The edge can import nothing, so its reader of objects stands apart from
// internal/strictjson. It is held to the inputs that the backends' readers are
// held to (TestReadersAgree): what they refuse of what it decides on does not
// pass here. A value's text is the backend's affair.
func TestReadsAsTheBackendsDo(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for range 300 {
		for _, flaw := range jsontest.Flaws {
			for _, levels := range []int{0, 3, maxDepth - 3, maxDepth - 2} {
				text := jsontest.New(r, flaw, levels)
				top, wrong := members([]byte(text.Raw))
				if wrong == "" {
					_, wrong = members(top["params"])
				}
				if wrong == "" {
					wrong = tooDeep([]byte(text.Raw), maxDepth)
				}
				takes := (flaw == jsontest.None || flaw == jsontest.Surrogate) && text.Levels <= maxDepth
				if (wrong == "") != takes {
					t.Fatalf("%q with %q, %d levels: %q", text.Raw, flaw, text.Levels, wrong)
				}
			}
		}
	}
}
