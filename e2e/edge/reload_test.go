package edge

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// soak says whether the long figures are asked for.
var soak = os.Getenv("SALLYPORT_SOAK") == "true"

// ticking is a backend of streams: it sends one event to each of them when told.
type ticking struct {
	*httptest.Server
	mu      sync.Mutex
	streams map[chan int]bool
}

func newTicking(t *testing.T) *ticking {
	b := &ticking{streams: map[chan int]bool{}}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		ticks := make(chan int, 1000)
		b.mu.Lock()
		b.streams[ticks] = true
		b.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "event: endpoint\ndata: /mcp/messages\n\n")
		w.(http.Flusher).Flush()
		for {
			select {
			case n := <-ticks:
				fmt.Fprintf(w, "data: %d\n\n", n)
				w.(http.Flusher).Flush()
			case <-r.Context().Done():
				b.mu.Lock()
				delete(b.streams, ticks)
				b.mu.Unlock()
				return
			}
		}
	}))
	t.Cleanup(func() { b.CloseClientConnections(); b.Close() })
	return b
}

// tick sends an event to every stream and returns how many there are.
func (b *ticking) tick(n int) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for ticks := range b.streams {
		ticks <- n
	}
	return len(b.streams)
}

// openStream returns a reader behind the endpoint event.
func openStream(ctx context.Context, t *testing.T, url, token string) *bufio.Reader {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := rig.HTTPClient(token).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != 200 {
		t.Fatalf("a stream: status %d", resp.StatusCode)
	}
	r := bufio.NewReader(resp.Body)
	event(t, r, "event: endpoint\ndata: /mcp/messages\n\n")
	return r
}

// event reads one event. A stream that dropped fails the test.
func event(t *testing.T, r *bufio.Reader, want string) {
	t.Helper()
	got := ""
	for !strings.HasSuffix(got, "\n\n") {
		line, err := r.ReadString('\n')
		got += line
		if err != nil {
			t.Fatalf("the stream ended after %q: %v", got, err)
		}
	}
	if got != want {
		t.Fatalf("event %q, want %q", got, want)
	}
}

// size is what a leak would grow: the live heap, after a collection.
type size struct{ goroutines, heap int }

func measure(t *testing.T, tr *rig.Traefik) size {
	t.Helper()
	var s size
	profile := func(path string) string {
		resp, err := rig.HTTPClient("").Get(tr.API + "/debug/pprof/" + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if _, err := fmt.Sscanf(profile("goroutine?debug=1"), "goroutine profile: total %d", &s.goroutines); err != nil {
		t.Fatal(err)
	}
	profile("heap?gc=1&debug=1") // what is freed at the first collection is counted at the second
	_, rest, _ := strings.Cut(profile("heap?gc=1&debug=1"), "# HeapAlloc = ")
	if _, err := fmt.Sscan(rest, &s.heap); err != nil {
		t.Fatal(err)
	}
	return s
}

// Reloads under load, 20 of them, in a soak 200: every stream lives on, its
// limits are kept, and nothing grows.
func TestReloadUnderLoadSoak(t *testing.T) {
	reloads, streams := 20, 20
	if soak {
		reloads, streams = 200, 100
	}
	bothProxies(t, func(t *testing.T, fast bool) { reloadUnderLoad(t, fast, reloads, streams) })
}

func reloadUnderLoad(t *testing.T, fast bool, reloads, streams int) {
	b := newTicking(t)
	token, clientFile := rig.NewToken(t)
	_, backendFile := rig.NewToken(t)
	s := &stand{backend: &backend{Server: b.Server}}
	// One place more than there are streams: a reload that forgot them shows.
	yaml := func(i int) string {
		return strings.ReplaceAll(s.dynamic(clientFile, backendFile, ""), "maxStreams: 1000", fmt.Sprintf("maxStreams: %d, expires: \"29%02d-01-01\"", streams+1, i%100))
	}
	tr := rig.StartTraefik(t, rig.TraefikOptions{FastProxy: fast, Dynamic: yaml(0), Args: []string{"--api.debug=true", "--providers.providersthrottleduration=100ms", "--entrypoints.twin.address=" + rig.FreeAddr(t)}})
	open := make([]*bufio.Reader, streams)
	for i := range open {
		open[i] = openStream(t.Context(), t, tr.Web+"/mcp/sse", token)
	}
	stop := make(chan struct{})
	failed := make(chan string, 1)
	var load sync.WaitGroup
	for range 2 {
		load.Go(func() { call(tr.Web+"/mcp/mcp", token, stop, failed) })
	}
	var before size
	for i := 1; i <= reloads; i++ {
		tr.SetDynamic(t, yaml(i))
		if n := b.tick(i); n != streams {
			t.Fatalf("after reload %d there are %d streams", i, n)
		}
		for _, r := range open {
			event(t, r, fmt.Sprintf("data: %d\n\n", i))
		}
		if i == reloads/2 {
			before = measure(t, tr)
		}
	}
	close(stop)
	load.Wait()
	var after size
	rig.Until(t, "Traefik's goroutines to be as few as before", func() bool {
		after = measure(t, tr)
		return after.goroutines <= before.goroutines+reloads/4+20
	}, tr.Process)
	select {
	case why := <-failed:
		t.Error(why)
	default:
	}
	t.Logf("after %d reloads: %+v, after %d: %+v", reloads/2, before, reloads, after)
	if after.heap > before.heap+20<<20 {
		t.Errorf("it grew from %+v to %+v", before, after)
	}
	openStream(t.Context(), t, tr.Web+"/mcp/sse", token)
	if status := get(t, tr.Web+"/mcp/sse", token); status != 429 {
		t.Errorf("one stream too many: status %d; a reload forgot the others", status)
	}
}

// call calls until told to stop. Any answer but the backend's is a failure.
func call(url, token string, stop chan struct{}, failed chan string) {
	client := rig.HTTPClient(token)
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond): // the machine has other work
		}
		resp, err := client.Post(url, "application/json", strings.NewReader(readFile))
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusAccepted {
				continue
			}
			err = fmt.Errorf("status %d", resp.StatusCode)
		}
		select {
		case failed <- fmt.Sprintf("a call during the reloads: %v", err):
		default:
		}
		return
	}
}

func get(t *testing.T, url, token string) int {
	t.Helper()
	resp, err := rig.HTTPClient(token).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	return resp.StatusCode
}

// Clients that go away in the middle of a stream leave nothing behind: the
// backend's streams end, at the next write where the fast proxy has no other way
// to notice, and with them everything in Traefik.
func TestClientsGoAway(t *testing.T) {
	bothProxies(t, func(t *testing.T, fast bool) {
		b := newTicking(t)
		token, clientFile := rig.NewToken(t)
		_, backendFile := rig.NewToken(t)
		s := &stand{backend: &backend{Server: b.Server}}
		tr := rig.StartTraefik(t, rig.TraefikOptions{FastProxy: fast, Dynamic: s.dynamic(clientFile, backendFile, ""),
			Args: []string{"--api.debug=true", "--entrypoints.twin.address=" + rig.FreeAddr(t)}})
		before := measure(t, tr)
		ctx, cancel := context.WithCancel(t.Context())
		for range 30 {
			openStream(ctx, t, tr.Web+"/mcp/sse", token)
		}
		if n := b.tick(1); n != 30 {
			t.Fatalf("%d streams are open", n)
		}
		cancel()
		rig.Until(t, "the backend's streams to end", func() bool { return b.tick(2) == 0 })
		rig.Until(t, "Traefik's goroutines to end", func() bool { return measure(t, tr).goroutines < before.goroutines+20 })
		rig.Until(t, "all 30 streams in the audit", func() bool { return strings.Count(tr.Log.String(), `"verdict":"allowed"`) == 30 })
		if a := (wire{method: "GET", target: "/debug/vars"}).http1(t, tr.API); !strings.Contains(a.body, `"sallyport": {"allowed": 30}`) {
			t.Errorf("Traefik's counters: status %d %.2000s", a.status, a.body)
		}
	})
}
