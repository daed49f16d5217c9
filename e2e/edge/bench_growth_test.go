//go:build bench

package edge

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// origin allows the one that the requests name.
const origin = "          allowedOrigins: [\"https://a.example\"]\n"

// accepting is a backend that reads all and accepts it.
func accepting(t *testing.T) *httptest.Server {
	t.Helper()
	b := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(b.Close)
	return b
}

// TestBenchTokens records how the edge's CPU per request grows with the tokens that
// it knows; the caller's is the last one.
func TestBenchTokens(t *testing.T) {
	rig.Lock(t, "bench")
	s := &stand{backend: &backend{Server: accepting(t)}}
	_, backendFile := rig.NewToken(t)
	curve := figures.Row{Group: "Growth", Work: "Traefik's CPU for a request of 1 KiB, by tokens of the edge", Unit: "µs", Judge: figures.Itself, Less: true, Of: "tokens"}
	token, clientFile := rig.NewToken(t)
	twin := "--entrypoints.twin.address=" + rig.FreeAddr(t)
	for _, n := range figures.Pick([]int{1, 10, 100, 1000}, []int{1, 10}) {
		var more strings.Builder
		for i := range n - 1 {
			fmt.Fprintf(&more, "            - {name: other%d, sha256: \"%064x\", tools: [read_file]}\n", i, i+1)
		}
		yaml := s.dynamic(clientFile, backendFile, origin)
		yaml = strings.Replace(yaml, "          tokens:\n", "          auditLog: false\n          tokens:\n"+more.String(), 1)
		tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: yaml, Args: []string{twin, "--accesslog=false", "--log.level=ERROR"}})
		curve.X, curve.Ours = append(curve.X, float64(n)), append(curve.Ours, perRequest(t, tr, token, ofSize(1024), requests))
		tr.Stop()
	}
	figures.Add(t, curve)
}

// TestBenchBodies records how it grows with the body.
func TestBenchBodies(t *testing.T) {
	rig.Lock(t, "bench")
	s := &stand{backend: &backend{Server: accepting(t)}}
	token, clientFile := rig.NewToken(t)
	_, backendFile := rig.NewToken(t)
	tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: s.dynamic(clientFile, backendFile, origin),
		Args: []string{"--entrypoints.twin.address=" + rig.FreeAddr(t), "--accesslog=false", "--log.level=ERROR"}})
	curve := figures.Row{Group: "Growth", Work: "Traefik's CPU for a request, by body, everything on", Unit: "µs", Judge: figures.Itself, Less: true, Of: "bytes"}
	for _, size := range figures.Pick([]int{1 << 10, 8 << 10, 64 << 10, 512 << 10, 1 << 20, 4 << 20, 8<<20 - 1024}, []int{1 << 10, 64 << 10}) {
		n := max(8, min(requests, 64<<20/size)/8*8)
		curve.X, curve.Ours = append(curve.X, float64(size)), append(curve.Ours, perRequest(t, tr, token, ofSize(size), n))
	}
	figures.Add(t, curve)
}

// perRequest is the median of some rounds of Traefik's CPU per request, in µs.
func perRequest(t *testing.T, tr *rig.Traefik, token, body string, n int) float64 {
	t.Helper()
	var rounds []float64
	for round := range figures.Pick(5, 1) + 1 {
		before := tr.CPU()
		send(t, tr.Web, "POST", token, body, n)
		if round > 0 { // the first warms up
			rounds = append(rounds, float64((tr.CPU()-before).Nanoseconds())/1000/float64(n))
		}
	}
	return figures.Median(rounds)
}
