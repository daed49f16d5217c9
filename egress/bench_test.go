package main_test

import (
	"cmp"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// bigBody is what the download of a benchmark has, in bytes.
const bigBody = 64 << 20

// BenchmarkEgress compares a direct connection with one through sandboxd's
// carrying and egress, and with one through tinyproxy where it is installed (or
// TINYPROXY names it): a whole new connection with one small request, and the rate
// of a large body. x-direct is the ratio.
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
	ways := []benchWay{{"direct", direct}, {"egress", proxied}}
	if address := tinyproxy(b); address != "" {
		ways = append(ways, benchWay{"tinyproxy", &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: address})}})
	}
	took := map[string]time.Duration{}
	for _, way := range ways {
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
			report(b, took, way.name, "connect")
		})
		b.Run(way.name+"/download", func(b *testing.B) {
			b.SetBytes(bigBody)
			for b.Loop() {
				fetch(b, "/big")
			}
			report(b, took, way.name, "download")
		})
	}
}

// report prints how many times as long as directly it took.
func report(b *testing.B, took map[string]time.Duration, way, what string) {
	each := b.Elapsed() / time.Duration(b.N)
	if way == "direct" {
		took[what] = each
	}
	b.ReportMetric(float64(each)/float64(took[what]), "x-direct")
}

type benchWay struct {
	name string
	tr   *http.Transport
}

// tinyproxy starts one and returns its address; "" where there is none.
func tinyproxy(b *testing.B) string {
	program, err := exec.LookPath(cmp.Or(os.Getenv("TINYPROXY"), "tinyproxy"))
	if err != nil {
		b.Log("not compared with tinyproxy:", err)
		return ""
	}
	const address = "127.0.0.1:3999" // free: the network namespace is the test's own
	config := filepath.Join(b.TempDir(), "tinyproxy.conf")
	text := "Port 3999\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 600\nMaxClients 100\nConnectPort 443\nLogLevel Critical\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(program, "-d", "-c", config)
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return address
		}
		if cmd.Process.Signal(syscall.Signal(0)) != nil {
			b.Fatal("tinyproxy ended")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func httpRequest(b *testing.B, url string) *http.Request {
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	return req
}
