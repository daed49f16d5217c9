package aggregate

import (
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// The tools run beside the session, where nobody else would catch a panic.
func TestPanicInAToolIsItsError(t *testing.T) {
	value, err := new(Aggregate).run(t.Context(), nil, mcphttp.Request{}, "wake_server", false)
	if value != nil || err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("%v, %v", value, err)
	}
}
