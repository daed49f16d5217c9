package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// journal is what a process has logged. Tests wait for a line of it, never for a time.
type journal struct {
	mu    sync.Mutex
	text  strings.Builder
	more  chan struct{} // closed at the next line
	ended chan struct{} // closed when the process has ended and all of it is here
}

func newJournal() *journal { return &journal{more: make(chan struct{}), ended: make(chan struct{})} }

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	close(j.more)
	j.more = make(chan struct{})
	return j.text.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// await waits until text was logged, or the process has ended.
func (j *journal) await(text string) bool {
	for {
		j.mu.Lock()
		more, there := j.more, strings.Contains(j.text.String(), text)
		j.mu.Unlock()
		if there {
			return true
		}
		select {
		case <-more:
		case <-j.ended:
			return strings.Contains(j.String(), text)
		}
	}
}

// A refresh that runs when SIGTERM comes is answered, and what it gave is good after the
// next start. The twin: SIGKILL cuts it.
func TestStopDuringRequest(t *testing.T) {
	r := newRig(t, nil)
	owner, c := r.owner(), r.app()
	for _, stop := range []struct {
		signal   syscall.Signal
		answered bool
	}{{syscall.SIGTERM, true}, {syscall.SIGKILL, false}} {
		tokens := c.connect(owner)
		body := form("grant_type", "refresh_token", "refresh_token", tokens.text("refresh_token"), "client_id", c.id).Encode()
		conn, err := net.Dial("tcp", strings.TrimPrefix(r.origin, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "POST /mcp-login/token HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n"+
			"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
		in := bufio.NewReader(conn)
		if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, " 100 ") {
			t.Fatalf("%q %v", line, err)
		}
		_, _ = in.ReadString('\n')
		// The handler waits for the body now.
		check(t, r.cmd.Process.Signal(stop.signal))
		if said := r.log.await("shutting down"); said != stop.answered {
			t.Fatalf("%v: %s", stop.signal, r.log)
		}
		fmt.Fprint(conn, body)
		resp, err := http.ReadResponse(in, nil)
		if answered := err == nil && resp.StatusCode == 200; answered != stop.answered {
			t.Errorf("%v: %v %v", stop.signal, resp, err)
		}
		conn.Close()
		<-r.log.ended
		if code := r.cmd.ProcessState.ExitCode(); stop.answered && code != 0 {
			t.Errorf("exit code %d: %s", code, r.log)
		}
		r.start()
		if a := c.refresh(tokens.text("refresh_token")); a.status != 200 {
			t.Errorf("%v: the client is locked out: %s", stop.signal, a.body)
		}
		owner = r.owner()
	}
}

// What a stranger calls himself cannot move the cursor of the owner's terminal, hide, or
// look like another line.
func TestHostileNames(t *testing.T) {
	r := newRig(t, nil)
	c := r.app()
	name := "A\x1b[2J\u202eB\ufe0f\u3164C\nGRANT"
	if a := c.register(map[string]any{"client_name": name, "redirect_uris": []string{callback}}); a.status != 201 {
		t.Fatal(a.body)
	}
	list, err := r.verb("", "clients")
	if err != nil || strings.ContainsAny(list, "\x1b\u202e\ufe0f\u3164") || strings.Contains(list, "\nGRANT") || !strings.Contains(list, "GRANT") {
		t.Errorf("%q %v", list, err)
	}
}
