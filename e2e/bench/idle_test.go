//go:build bench

package bench_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/figures"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

const greeting = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"idle","version":"1"}}}`

// What an idle, greeted session costs in memory, beside mcp-go, how it grows with
// their number, and how long a command takes beside all of them. Each session holds
// its stream open, on a plain socket, so that the clients take little of the machine.
func TestBenchIdleSessions(t *testing.T) {
	asked(t)
	steps := figures.Pick([]int{100, 1000, 3000, 10_000}, []int{20, 50})
	moreDescriptors(steps[len(steps)-1] + 1000)
	settle := figures.Pick(130*time.Second, time.Second) // until the runtimes have given back what was garbage
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		t.Run(string(how), func(t *testing.T) { idleSessions(t, how, steps, settle) }) // its connections end with it
	}
}

// idleSessions measures one server after the other: many a machine gives no process
// descriptors for both.
func idleSessions(t *testing.T, how rig.Transport, steps []int, settle time.Duration) {
	name, most := transportName(how), steps[len(steps)-1]
	each := map[string]float64{}
	ours, peer := servers(t)
	for _, s := range []server{ours, peer} {
		t.Run(s.name, func(t *testing.T) {
			each[s.name] = idleOnes(t, s, how, steps, settle)
			if s.name == ours.name {
				beside(t, s, fmt.Sprintf("run_command beside %d idle sessions, %s, p99", most, name))
			}
		})
	}
	figures.Add(t, figures.Row{Group: "Sessions", Work: fmt.Sprintf("memory of an idle session (RSS), %s, %d of them", name, most), Unit: "KiB", Alternative: peer.name,
		Ours: []float64{each[ours.name]}, Theirs: []float64{each[peer.name]}, Judge: figures.Itself, Less: true, Bar: 40, Aim: 24})
}

// idleOnes opens sessions, records how memory grows, and returns what one of them takes
// when it has settled, in KiB.
func idleOnes(t *testing.T, s server, how rig.Transport, steps []int, settle time.Duration) float64 {
	idle(t, s, how, 1) // the first one brings what is there once
	before, open := s.Resident(t), 0
	curve := figures.Row{Group: "Growth", Work: "memory added by idle sessions, " + transportName(how) + ", " + s.name,
		Unit: "MiB", Judge: figures.Itself, Less: true, Of: "sessions"}
	for _, n := range steps {
		idle(t, s, how, n-open)
		open = n
		curve.X = append(curve.X, float64(n))
		curve.Ours = append(curve.Ours, max(0.01, float64(s.Resident(t)-before)/(1<<20)))
	}
	figures.Add(t, curve)
	t.Logf("%d sessions are open; waiting %s for what is garbage to be given back", open, settle)
	time.Sleep(settle)
	return float64(s.Resident(t)-before) / 1024 / float64(open)
}

// TestBenchSessions records how the time of one call grows with the sessions beside it.
func TestBenchSessions(t *testing.T) {
	asked(t)
	steps := figures.Pick([]int{1, 10, 100, 1000, 10_000}, []int{1, 10})
	moreDescriptors(steps[len(steps)-1] + 1000)
	for _, how := range []rig.Transport{rig.SSE, rig.Streamable} {
		for i := range 2 { // ours, the other
			t.Run(fmt.Sprint(how, i), func(t *testing.T) { // its connections end with it
				ours, peer := servers(t)
				callsBeside(t, []server{ours, peer}[i], how, steps)
			})
		}
	}
}

func callsBeside(t *testing.T, s server, how rig.Transport, steps []int) {
	session := rig.Connect(t, s.base, s.token, how)
	curve := figures.Row{Group: "Growth", Work: "read_file of 1 KiB beside idle sessions, " + transportName(how) + ", " + s.name,
		Unit: "ms", Judge: figures.Itself, Less: true, Of: "sessions"}
	open := 0
	for _, n := range steps {
		idle(t, s, how, n-1-open) // and the one that calls
		open = n - 1
		var took []float64
		for range figures.Pick(300, 5) {
			begin := time.Now()
			rig.TryCall(t, session, "read_file", rig.Args{"path": "1KiB"})
			took = append(took, time.Since(begin).Seconds()*1000)
		}
		curve.X, curve.Ours = append(curve.X, float64(n)), append(curve.Ours, figures.Median(took))
	}
	figures.Add(t, curve)
}

func transportName(how rig.Transport) string {
	return map[rig.Transport]string{rig.SSE: "SSE", rig.Streamable: "streamable HTTP"}[how]
}

// moreDescriptors raises this process's limit where it may: each session is a socket.
func moreDescriptors(n int) {
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil || l.Cur >= uint64(n) {
		return
	}
	l.Cur, l.Max = uint64(n), max(l.Max, uint64(n))
	_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l) // without root the limit stays, and opening says so
}

// beside records how long commands take while the sessions are open.
func beside(t *testing.T, s server, work string) {
	t.Helper()
	session := rig.Connect(t, s.base, s.token, rig.Streamable)
	var rounds []float64
	for range figures.Pick(5, 1) {
		var took []float64
		for range figures.Pick(100, 5) {
			begin := time.Now()
			rig.Call(t, session, "run_command", rig.Args{"command": "true"})
			took = append(took, time.Since(begin).Seconds()*1000)
		}
		rounds = append(rounds, percentile(took, 0.99))
	}
	figures.Add(t, figures.Row{Group: "Sessions", Work: work, Unit: "ms", Ours: rounds, Judge: figures.Itself, Less: true, Bar: 100})
}

// idle opens sessions and leaves them.
func idle(t *testing.T, s server, how rig.Transport, n int) {
	t.Helper()
	gate := make(chan struct{}, 16)
	var all sync.WaitGroup
	for range n {
		gate <- struct{}{}
		all.Go(func() {
			defer func() { <-gate }()
			conn, err := openSession(t.Context(), s, how)
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { conn.Close() })
		})
	}
	all.Wait()
}

func openSession(ctx context.Context, s server, how rig.Transport) (net.Conn, error) {
	if how == rig.SSE {
		conn, stream, err := openStream(ctx, s, "/sse", "")
		if err != nil {
			return nil, err
		}
		endpoint, err := until(stream, "data: ")
		if err == nil {
			_, err = tell(ctx, s, endpoint, "", greeting)
		}
		if err == nil {
			_, err = until(stream, "data: ")
		}
		if err == nil {
			_, err = tell(ctx, s, endpoint, "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		}
		return conn, err
	}
	id, err := tell(ctx, s, "/mcp", "", greeting)
	if err == nil {
		_, err = tell(ctx, s, "/mcp", id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	if err != nil {
		return nil, err
	}
	conn, _, err := openStream(ctx, s, "/mcp", id)
	return conn, err
}

// host splits the base URL of a server.
func (s server) host() (host, path string) {
	host, path, _ = strings.Cut(strings.TrimPrefix(s.base, "http://"), "/")
	if path != "" {
		path = "/" + path
	}
	return host, path
}

func openStream(ctx context.Context, s server, path, session string) (net.Conn, *bufio.Reader, error) {
	host, base := s.host()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, nil, err
	}
	more := ""
	if session != "" {
		more = "Mcp-Session-Id: " + session + "\r\nMcp-Protocol-Version: 2025-06-18\r\n"
	}
	if s.token != "" {
		more += "Authorization: Bearer " + s.token + "\r\n"
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/event-stream\r\n%s\r\n", base+path, host, more)
	stream := bufio.NewReaderSize(conn, 512)
	status, err := stream.ReadString('\n')
	if err == nil && !strings.Contains(status, " 200 ") {
		err = fmt.Errorf("GET %s: %s", path, strings.TrimSpace(status))
	}
	return conn, stream, err
}

// until returns the rest of the first line that begins so.
func until(stream *bufio.Reader, begin string) (string, error) {
	for {
		line, err := stream.ReadString('\n')
		if rest, found := strings.CutPrefix(line, begin); found {
			return strings.TrimSpace(rest), err
		}
		if err != nil {
			return "", err
		}
	}
}

// posts keeps few connections for all sessions.
var posts = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}

// tell posts a message and returns the session id of the answer.
func tell(ctx context.Context, s server, path, session, message string) (string, error) {
	host, base := s.host()
	url := "http://" + host + base + path
	if strings.HasPrefix(path, "http://") {
		url = path
	} else if base != "" && strings.HasPrefix(path, base) || strings.Contains(path, "?") {
		url = "http://" + host + path
	}
	req, err := http.NewRequestWithContext(ctx, "POST", url, strings.NewReader(message))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	if session != "" {
		req.Header.Set("Mcp-Session-Id", session)
		req.Header.Set("Mcp-Protocol-Version", "2025-06-18")
	}
	resp, err := posts.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("POST %s: status %d", path, resp.StatusCode)
	}
	return resp.Header.Get("Mcp-Session-Id"), err
}
