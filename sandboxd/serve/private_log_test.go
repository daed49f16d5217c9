package serve_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

// A command that changes the mode of a key over and over fills no disk with what is said
// of it, and hides no other key's change.
func TestModesAreReportedSeldom(t *testing.T) {
	var out bytes.Buffer
	report := serve.Reports(slog.New(slog.NewJSONHandler(&out, nil)))
	for range 10_000 {
		report("/a/key", 0o644)
	}
	report("/a/token", 0o666)
	text := out.String()
	if n := strings.Count(text, "\n"); n < 2 || n > 60 || !strings.Contains(text, "/a/token") || !strings.Contains(text, "0644") {
		t.Errorf("%d lines: %.500s", n, text)
	}
}
