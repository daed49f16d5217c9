package plan

import (
	"bytes"
	"strings"
	"testing"
)

// Without Docker Compose the first sentence says so, and what plan is for.
func TestWithoutCompose(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", t.TempDir())
	var out, errs bytes.Buffer
	if code := Main(t.Context(), nil, &out, &errs); code != 1 && code != 2 || !strings.Contains(errs.String(), "Docker Compose is not installed; plan reads the compose stack, not make run") {
		t.Errorf("%d: %s", code, errs.String())
	}
}
