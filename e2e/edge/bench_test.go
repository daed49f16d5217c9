//go:build bench

package edge

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// Figures are medians of nine interleaved rounds: other work on the machine meets
// every row alike.
var (
	rounds   = figures.Pick(9, 2)
	requests = figures.Pick(3000, 160)
)

// row is one way through Traefik.
type row struct {
	name, entry string // entry point's base URL
	method      string
	cpu         []time.Duration // of Traefik, per request, by round
}

// shipped is how docker-compose.yml has Go collect garbage.
var shipped = []string{"GOGC=400", "GOMEMLIMIT=400MiB"}

// TestBenchCost records Traefik's CPU time per request: alone, with the plugin,
// and with forwardAuth, whose own server is not counted.
func TestBenchCost(t *testing.T) {
	rig.Lock(t, "bench")
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusAccepted)
	}))
	defer backend.Close()
	auth := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer auth.Close()
	token, clientFile := rig.NewToken(t)
	_, backendFile := rig.NewToken(t)
	names := []string{"alone", "bearer", "everything", "noaudit", "forwardauth"}
	var args []string
	entries := map[string]string{}
	for _, name := range names {
		addr := rig.FreeAddr(t)
		entries[name] = "http://" + addr
		args = append(args, "--entrypoints."+name+".address="+addr)
	}
	tr := traefik{rig.StartTraefik(t, rig.TraefikOptions{Args: append(args, "--accesslog=false", "--log.level=ERROR"), Env: shipped, Dynamic: fmt.Sprintf(`http:
  routers:
    alone: {rule: "PathPrefix(%[1]s)", entryPoints: [alone], service: s}
    bearer: {rule: "PathPrefix(%[1]s)", entryPoints: [bearer], service: s, middlewares: [bearer]}
    everything: {rule: "PathPrefix(%[1]s)", entryPoints: [everything], service: s, middlewares: [everything]}
    noaudit: {rule: "PathPrefix(%[1]s)", entryPoints: [noaudit], service: s, middlewares: [noaudit]}
    forwardauth: {rule: "PathPrefix(%[1]s)", entryPoints: [forwardauth], service: s, middlewares: [forwardauth]}
  middlewares:
    bearer: {plugin: {sallyport: {backend: sandbox, pathPrefix: /mcp, backendTokenFile: %[2]s, auditLog: "false", tokens: [{name: a, valueFile: %[3]s, tools: [read_file], requestsPerMinute: 100000000}]}}}
    everything: {plugin: {sallyport: {backend: sandbox, pathPrefix: /mcp, backendTokenFile: %[2]s, allowedOrigins: ["https://a.example"], tokens: [{name: a, valueFile: %[3]s, tools: [read_file], requestsPerMinute: 100000000}]}}}
    noaudit: {plugin: {sallyport: {backend: sandbox, pathPrefix: /mcp, auditLog: "false", backendTokenFile: %[2]s, allowedOrigins: ["https://a.example"], tokens: [{name: a, valueFile: %[3]s, tools: [read_file], requestsPerMinute: 100000000}]}}}
    forwardauth: {forwardAuth: {address: %[4]q}}
  services: {s: {loadBalancer: {servers: [{url: %[5]q}]}}}
`, "`/mcp`", backendFile, clientFile, auth.URL, backend.URL)})}
	table := []*row{
		{name: "no body: alone", entry: "alone", method: "DELETE"},
		{name: "no body: bearer only", entry: "bearer", method: "DELETE"},
		{name: "1 KiB: alone", entry: "alone", method: "POST"},
		{name: "1 KiB: everything", entry: "everything", method: "POST"},
		{name: "1 KiB: all but the audit", entry: "noaudit", method: "POST"},
		{name: "1 KiB: forwardAuth", entry: "forwardauth", method: "POST"},
		{name: "no body: forwardAuth", entry: "forwardauth", method: "DELETE"},
	}
	tr.rounds(t, table, entries, token)
	tr.record(t, table)
}

// rounds drives each row's entry point, in turns.
func (tr traefik) rounds(t *testing.T, table []*row, entries map[string]string, token string) {
	t.Helper()
	for round := range rounds + 1 {
		for _, r := range table {
			before := tr.CPU()
			drive(t, entries[r.entry], r.method, token)
			if round > 0 { // the first warms up
				r.cpu = append(r.cpu, (tr.CPU()-before)/time.Duration(requests))
			}
		}
	}
	for _, r := range table {
		t.Logf("%-26s %8s CPU per request", r.name, median(r.cpu))
	}
}

// traefik is one that is measured.
type traefik struct{ *rig.Traefik }

func (tr traefik) record(t *testing.T, table []*row) {
	t.Helper()
	added := func(with, without int) (µs []float64) {
		for i := range table[with].cpu {
			µs = append(µs, float64((table[with].cpu[i]-table[without].cpu[i]).Nanoseconds())/1000)
		}
		return µs
	}
	const unit, forward = "µs", "forwardAuth"
	figures.Add(t, figures.Row{Group: "Edge", Work: "CPU added to Traefik alone, bearer only, no body", Unit: unit, Alternative: forward, Ours: added(1, 0), Theirs: added(6, 0),
		Judge: figures.Itself, Less: true, Bar: 40, Aim: 30})
	figures.Add(t, figures.Row{Group: "Edge", Work: "CPU added, everything on, 1 KiB", Unit: unit, Alternative: forward, Ours: added(3, 2), Theirs: added(5, 2),
		Judge: figures.Ratio, Less: true, Bar: 1, Aim: 0.6})
	figures.Add(t, figures.Row{Group: "Edge", Work: "CPU added, all but the audit, 1 KiB", Unit: unit, Alternative: forward, Ours: added(4, 2), Theirs: added(5, 2),
		Judge: figures.Ratio, Less: true})
}

func median(all []time.Duration) time.Duration {
	all = slices.Clone(all)
	slices.Sort(all)
	return all[len(all)/2]
}

// drive sends the requests over eight connections.
func drive(t *testing.T, base, method, token string) {
	t.Helper()
	body := ""
	if method == "POST" {
		body = ofSize(1024)
	}
	send(t, base, method, token, body, requests)
}

// ofSize is a call with a body of this many bytes.
func ofSize(size int) string {
	return strings.Replace(readFile, `"path":"a"`, `"path":"`+strings.Repeat("a", size-len(readFile)+1)+`"`, 1)
}

func send(t *testing.T, base, method, token, body string, requests int) {
	t.Helper()
	request := fmt.Appendf(nil, "%s /mcp/mcp HTTP/1.1\r\nHost: node.example\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
		"User-Agent: node\r\nMcp-Protocol-Version: 2025-11-25\r\nOrigin: https://a.example\r\nContent-Length: %d\r\n\r\n%s", method, token, len(body), body)
	if method == "DELETE" {
		request = bytes.Replace(request, []byte("Origin: https://a.example\r\n"), nil, 1)
	}
	connections := max(1, min(8, 16<<20/(len(body)+1))) // a principal has 32 MiB of large bodies at once
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			conn, err := net.Dial("tcp", strings.TrimPrefix(base, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for range requests / connections {
				conn.Write(request)
				resp, err := http.ReadResponse(answers, nil)
				if err != nil || resp.StatusCode != http.StatusAccepted {
					t.Errorf("%v %v", resp, err)
					return
				}
				io.Copy(io.Discard, resp.Body)
			}
		})
	}
	clients.Wait()
}

// TestBenchStream reports how many events per second pass, with the plugin and
// without.
func TestBenchStream(t *testing.T) {
	rig.Lock(t, "bench")
	events := figures.Pick(10_000, 500)
	backend := &backend{Server: httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, "event: endpoint\ndata: /mcp/messages\n\n")
		for range events {
			io.WriteString(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\"}\n\n")
			w.(http.Flusher).Flush()
		}
	}))}
	defer backend.Close()
	token, clientFile := rig.NewToken(t)
	_, backendFile := rig.NewToken(t)
	twin := rig.FreeAddr(t)
	s := &stand{backend: backend}
	tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: s.dynamic(clientFile, backendFile, ""),
		Args: []string{"--entrypoints.twin.address=" + twin, "--accesslog=false", "--log.level=ERROR"}})
	run := func(base string) time.Duration {
		begun := time.Now()
		req, _ := http.NewRequest("GET", base+"/mcp/sse", nil)
		resp, err := rig.HTTPClient(token).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if n := strings.Count(string(body), "event: message"); err != nil || n != events {
			t.Fatalf("%d events, %v", n, err)
		}
		return time.Since(begun)
	}
	var with, without []time.Duration
	for range rounds {
		without = append(without, run("http://"+twin))
		with = append(with, run(tr.Web))
	}
	perSecond := func(took []time.Duration) (rates []float64) {
		for _, d := range took {
			rates = append(rates, float64(events)/d.Seconds())
		}
		return rates
	}
	figures.Add(t, figures.Row{Group: "Edge", Work: "events of one stream", Unit: "events/s", Alternative: "Traefik alone", Ours: perSecond(with), Theirs: perSecond(without), Judge: figures.Ratio})
}
