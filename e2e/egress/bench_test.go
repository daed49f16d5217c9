//go:build bench

package egress_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// A way to x.example, and what it took by round.
type benchWay struct {
	name           string
	transport      *http.Transport
	latency, speed []float64 // median ms of a new connection with one request; MB/s of a large body
}

// Egress, with sandboxd's carrying before it, beside a direct connection and beside
// tinyproxy, round by round in one run.
func TestBenchEgress(t *testing.T) {
	rig.Lock(t, "bench")
	proxy := func(address string) *http.Transport {
		return &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: address})}
	}
	direct := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addresses["x.example"]+":443")
	}}
	ways := []*benchWay{{name: "egress", transport: proxy(benchEgress(t))}, {name: "direct", transport: direct}}
	if address := tinyproxy(t); address != "" {
		ways = append(ways, &benchWay{name: "tinyproxy", transport: proxy(address)})
	}
	for _, w := range ways {
		w.transport.TLSClientConfig, w.transport.DisableKeepAlives = &tls.Config{RootCAs: ca.Pool()}, true
	}
	for round := range figures.Pick(7, 1) + 1 {
		for _, w := range ways {
			latency, speed := w.measure(t)
			if round > 0 { // the first one warms up
				w.latency, w.speed = append(w.latency, latency), append(w.speed, speed)
			}
		}
	}
	ours := ways[0]
	for _, other := range ways[1:] {
		latency := figures.Row{Group: "Egress", Work: "a new TLS connection with one small request, beside " + other.name, Unit: "ms", Alternative: other.name,
			Ours: ours.latency, Theirs: other.latency, Judge: figures.Ratio, Less: true}
		speed := figures.Row{Group: "Egress", Work: "one large body, beside " + other.name, Unit: "MB/s", Alternative: other.name,
			Ours: ours.speed, Theirs: other.speed, Judge: figures.Ratio}
		if other.name == "tinyproxy" { // which decides by name and looks at nothing
			latency.Bar, speed.Bar = 1.25, 0.8
		}
		figures.Add(t, latency)
		figures.Add(t, speed)
	}
}

// measure is one round.
func (w *benchWay) measure(t *testing.T) (latency, speed float64) {
	t.Helper()
	var took []float64
	for range figures.Pick(100, 5) {
		begin := time.Now()
		w.fetch(t, "/")
		took = append(took, time.Since(begin).Seconds()*1000)
	}
	begin, bytes := time.Now(), int64(0)
	for range figures.Pick(6, 1) {
		bytes += w.fetch(t, bigPath)
	}
	return figures.Median(took), float64(bytes) / 1e6 / time.Since(begin).Seconds()
}

func (w *benchWay) fetch(t *testing.T, path string) int64 {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x.example"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil {
		t.Fatalf("%s: %v", w.name, err)
	}
	return n
}

// benchEgress starts one, and a listener that leads to it as a command's does.
func benchEgress(t *testing.T) (address string) {
	t.Helper()
	dir := t.TempDir()
	if err := keysocket.Create(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	key, err := keysocket.ReadKey(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	egress := exec.Command(rig.Binary(t, "sallyport-egress"))
	egress.Env = []string{"EGRESS_SOCKET=" + dir + "/s", "EGRESS_KEY_FILE=" + dir + "/key", "EGRESS_ALLOW=x.example", "EGRESS_AUDIT_FILE=" + dir + "/audit/audit.jsonl"}
	p := rig.Start(t, egress)
	rig.Until(t, "egress listens", func() bool { return strings.Contains(p.Log.String(), `"listening"`) }, p)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := egresswire.Client{Socket: dir + "/s", Key: key}
	way := client.Open(l, egresswire.Command{Principal: "token:bench", ID: "bench", Rules: []string{"*"}}, func(r egresswire.Refusal) { t.Error(r.Say) })
	t.Cleanup(way.Close)
	return l.Addr().String()
}

// tinyproxy starts one and returns its address; "" where there is none.
func tinyproxy(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("tinyproxy")
	if err != nil {
		t.Log("SKIPPED, missing: tinyproxy (apt-get install tinyproxy)")
		return ""
	}
	const address = "127.0.0.1:3999" // free: the network namespace is the test's own
	config := filepath.Join(t.TempDir(), "tinyproxy.conf")
	text := "Port 3999\nListen 127.0.0.1\nAllow 127.0.0.1\nTimeout 600\nMaxClients 100\nConnectPort 443\nLogLevel Critical\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := rig.Start(t, exec.Command(program, "-d", "-c", config))
	rig.Until(t, "tinyproxy listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}, p)
	return address
}
