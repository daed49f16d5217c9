//go:build bench

package hub

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// relayVar holds what makes a process of this test binary the relay.
const relayVar = "SALLYPORT_BENCH_RELAY"

// bareRelay starts a gateway of net/http and two pipes that decides nothing, checks
// nothing and records nothing: what any gateway in Go takes at least.
func bareRelay(t *testing.T, server []string) *gateway {
	t.Helper()
	addr := rig.FreeAddr(t)
	line, err := json.Marshal(append([]string{addr}, server...))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestBareRelay$", "-test.timeout", "0")
	cmd.Env = append(os.Environ(), relayVar+"="+string(line))
	p := rig.Start(t, cmd)
	rig.Until(t, "the relay", func() bool { return rig.Status("http://"+addr) != 0 }, p)
	return &gateway{name: "a bare relay", bound: true, base: "http://" + addr, Process: p}
}

// TestBareRelay is that process.
func TestBareRelay(t *testing.T) {
	var line []string
	if json.Unmarshal([]byte(os.Getenv(relayVar)), &line) != nil {
		t.Skip("not by itself: part of TestBenchHub")
	}
	r := &relay{server: line[1:], sessions: map[string]*relayed{}}
	t.Fatal(http.ListenAndServe(line[0], r))
}

type relay struct {
	server   []string
	mu       sync.Mutex
	sessions map[string]*relayed
}

// relayed is one session with a server of its own.
type relayed struct {
	id    string
	stdin io.Writer
	mu    sync.Mutex
	calls map[string]chan []byte // by the call's id
}

// head is all that the relay reads of a message.
type head struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
}

func (r *relay) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	var m head
	if err != nil || json.Unmarshal(body, &m) != nil { // a GET too
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	s := r.session(q.Header.Get("Mcp-Session-Id"), m.Method == "initialize")
	if s == nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	answer := make(chan []byte, 1)
	s.mu.Lock()
	s.calls[string(m.ID)] = answer
	s.stdin.Write(append(bytes.ReplaceAll(body, []byte("\n"), nil), '\n'))
	s.mu.Unlock()
	w.Header().Set("Mcp-Session-Id", s.id)
	if m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(<-answer)
}

func (r *relay) session(id string, fresh bool) *relayed {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !fresh {
		return r.sessions[id]
	}
	cmd := exec.Command(r.server[0], r.server[1:]...)
	stdin, _ := cmd.StdinPipe()
	stdout, _ := cmd.StdoutPipe()
	if cmd.Start() != nil {
		return nil
	}
	s := &relayed{id: strconv.Itoa(cmd.Process.Pid), stdin: stdin, calls: map[string]chan []byte{}}
	r.sessions[s.id] = s
	go s.read(bufio.NewReader(stdout))
	return s
}

func (s *relayed) read(in *bufio.Reader) {
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m head
		if json.Unmarshal(line, &m) != nil || m.Method != "" {
			continue
		}
		s.mu.Lock()
		answer := s.calls[string(m.ID)]
		delete(s.calls, string(m.ID))
		s.mu.Unlock()
		if answer != nil {
			answer <- line
		}
	}
}
