package health_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/health"
)

func TestHealth(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/healthz" {
			t.Errorf("asked for %s", r.URL)
		}
		w.WriteHeader(status)
	}))
	defer server.Close()
	addr := strings.TrimPrefix(server.URL, "http://")
	_, port, _ := strings.Cut(addr, ":")

	for _, c := range []struct {
		name, addr string
		status     int
		want       int
	}{
		{"serving", addr, 200, 0},
		{"serving on all addresses", ":" + port, 200, 0},
		{"unhappy", addr, 503, 1},
		{"nobody there", "127.0.0.1:1", 200, 1},
		{"no address", "", 200, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			status = c.status
			t.Setenv("MCP_ADDR", c.addr)
			t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
			var stdout, stderr bytes.Buffer
			if got := health.Command("sandboxd", "MCP_ADDR", "127.0.0.1:1")(t.Context(), nil, &stdout, &stderr); got != c.want {
				t.Errorf("exit code %d, want %d: %s", got, c.want, &stderr)
			}
		})
	}
}
