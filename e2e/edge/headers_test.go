package edge

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Headers are in memory as long as their request runs: with the bound of the compose
// file nobody, with a token or without, sends more than a usual request has. The twin
// is Traefik's default, with which a MiB of them reaches the backend.
func TestLongHeaders(t *testing.T) {
	compose, err := os.ReadFile(filepath.Join(rig.Root(t), "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	bound := regexp.MustCompile(`--entrypoints\.websecure(\.http\.maxheaderbytes=\d+)`).FindSubmatch(compose)
	if bound == nil {
		t.Fatal("docker-compose.yml sets no maxheaderbytes")
	}
	for _, flags := range [][]string{{"--entrypoints.web" + string(bound[1])}, nil} {
		s := newStand(t, false, flags...)
		for _, name := range []string{"X-Any", "User-Agent"} { // the latter is no part of what the plugin knows a request by
			for size, passes := range map[int]bool{32 << 10: true, 1000 << 10: flags == nil} {
				w := attack{header: [][2]string{{name, strings.Repeat("x", size)}}}.request(s.token)
				a := w.http1(t, s.Web)
				if seen := len(s.backend.take()); (a.status == http.StatusOK && seen == 1) != passes {
					t.Errorf("%v, %s of %d bytes: status %d, %d requests at the backend", flags, name, size, a.status, seen)
				}
			}
		}
	}
}
