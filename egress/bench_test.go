package main_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// bigBody is what the download of a benchmark has, in bytes.
const bigBody = 64 << 20

// BenchmarkEgress compares a direct connection with one through sandboxd's
// carrying and egress: a whole new connection with one small request, and the
// rate of a large body.
func BenchmarkEgress(b *testing.B) {
	world.dns.Set("big.example", "93.184.215.10")
	world.registries.Store("big.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/small" {
			return
		}
		chunk := make([]byte, 64<<10)
		for range bigBody / len(chunk) {
			w.Write(chunk)
		}
	}))
	e := startIn(b, b.TempDir(), "big.example", os.Geteuid())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	way := e.client.Open(l, egresswire.Command{Principal: "token:bench", ID: "bench", Rules: []string{"*"}}, func(egresswire.Refusal) {})
	defer way.Close()
	proxied := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: l.Addr().String()})}
	direct := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", "93.184.215.10:443")
	}}
	for _, way := range []struct {
		name string
		tr   *http.Transport
	}{{"direct", direct}, {"egress", proxied}} {
		way.tr.TLSClientConfig, way.tr.DisableKeepAlives = &tls.Config{RootCAs: world.ca.Pool()}, true
		fetch := func(b *testing.B, path string) {
			resp, err := way.tr.RoundTrip(httpRequest(b, "https://big.example"+path))
			if err != nil {
				b.Fatal(err)
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		b.Run(way.name+"/connect", func(b *testing.B) {
			for b.Loop() {
				fetch(b, "/small")
			}
		})
		b.Run(way.name+"/download", func(b *testing.B) {
			b.SetBytes(bigBody)
			for b.Loop() {
				fetch(b, "/big")
			}
		})
	}
}

func httpRequest(b *testing.B, url string) *http.Request {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	return req
}
