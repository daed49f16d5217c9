package soak

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// patience bounds one call; an answer that takes longer counts as lost.
const patience = time.Minute

// visit connects, calls until the end, and connects again where a kill -9 cut it
// off. next returns a call and what its answer must be.
func (w *world) visit(ctx context.Context, token string, how rig.Transport, next func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string)) {
	for ctx.Err() == nil {
		since := w.generation.Load()
		session, err := w.connect(token, how)
		if err != nil {
			w.failed(since, "connecting over "+string(how), err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		w.count("sessions over " + map[rig.Transport]string{rig.SSE: "SSE", rig.Streamable: "streamable HTTP"}[how])
		for ctx.Err() == nil && w.callOnce(since, session, next) {
		}
		session.Close()
	}
}

func (w *world) connect(token string, how rig.Transport) (*mcp.ClientSession, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	if how == rig.Streamable {
		defer cancel()
	} else {
		w.t.Cleanup(cancel) // an SSE session lives as long as its context
	}
	return rig.TryConnect(ctx, w.chain.Base, token, how)
}

// callOnce reports whether the session can go on.
func (w *world) callOnce(since int64, session *mcp.ClientSession, next func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string)) bool {
	params, check := next()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.count("calls sent")
	result, err := session.CallTool(ctx, params)
	if err != nil {
		w.failed(since, params.Name, err)
		return false
	}
	w.count("calls answered")
	if wrong := check(result); wrong != "" && !w.excused(since) {
		w.count("crossed or wrong answers")
		w.t.Errorf("%s %v: %s: %.300s", params.Name, params.Arguments, wrong, rig.Text(result))
	}
	return true
}

// failed counts an error: of a kill -9, or a loss.
func (w *world) failed(since int64, what string, err error) {
	if w.excused(since) {
		w.count("cut off by kill -9")
		return
	}
	w.count("lost")
	w.t.Errorf("%s: %v", what, err)
}

// echo is a command whose answer nobody else gets.
func (w *world) echo() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
	id := rand.Text()
	return &mcp.CallToolParams{Name: "run_command", Arguments: rig.Args{"command": "echo " + id}}, func(r *mcp.CallToolResult) string {
		content, _ := r.StructuredContent.(rig.Args)
		if content["stdout"] != id+"\n" {
			return "not this call's answer"
		}
		w.count("calls begun")
		return ""
	}
}

// file writes and reads one of the client's own, in turns.
func (w *world) file() func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
	name, content, write := rand.Text(), "", false
	return func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
		if write = !write || content == ""; write {
			next := strings.Repeat(rand.Text()+"\n", 200)
			content = "" // unknown, until the answer comes
			return &mcp.CallToolParams{Name: "write_file", Arguments: rig.Args{"path": name, "content": next}}, func(r *mcp.CallToolResult) string {
				if r.IsError {
					return "not written"
				}
				content = next
				w.count("calls begun")
				return ""
			}
		}
		return &mcp.CallToolParams{Name: "read_file", Arguments: rig.Args{"path": name}}, func(r *mcp.CallToolResult) string {
			got, _ := r.StructuredContent.(rig.Args)
			if got["content"] != content {
				return "not what was written last"
			}
			w.count("calls begun")
			return ""
		}
	}
}

// hostile leaves processes behind, floods, ignores signals, attacks its parent.
func (w *world) hostile() func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
	n := 0
	commands := []string{
		"setsid sh -c 'trap \"\" TERM HUP INT; sleep 600; : MARK' >/dev/null 2>&1 & true",
		"for i in 1 2 3 4 5 6 7 8 9 10; do (setsid sh -c 'sleep 600; : MARK' &) >/dev/null 2>&1; done; true",
		"trap '' TERM; sh -c 'sleep 600; : MARK'",
		"yes MARK | head -c 20000000",
		"kill -9 $PPID; true",
		"head -c 100000000 /dev/zero >fill; rm -f fill; exit 7",
		"kill -STOP $$; : MARK",
	}
	return func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
		command := strings.ReplaceAll(commands[n%len(commands)], "MARK", w.mark)
		n++
		w.count("hostile commands")
		return &mcp.CallToolParams{Name: "run_command", Arguments: rig.Args{"command": command, "timeout_seconds": 2}},
			func(*mcp.CallToolResult) string { w.count("calls begun"); return "" }
	}
}

// asked is a command that the owner decides on, by its text.
func (w *world) asked() func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
	n := 0
	return func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
		n++
		id, deny := rand.Text(), n%3 == 0
		if deny {
			id = "deny-" + id
		}
		return &mcp.CallToolParams{Name: "run_command", Arguments: rig.Args{"command": "echo " + id}}, func(r *mcp.CallToolResult) string {
			content, _ := r.StructuredContent.(rig.Args)
			switch {
			case deny && r.IsError && strings.Contains(rig.Text(r), "not in a soak"):
				w.count("denied by the owner")
			case !deny && content["stdout"] == id+"\n":
				w.count("approved by the owner")
				w.count("calls begun")
			default:
				return "not what the owner decided"
			}
			return ""
		}
	}
}

// decide is the owner: `sallyport approve` and `sallyport deny`.
func (w *world) decide(ctx context.Context) {
	at := []string{"-socket", w.socket(), "-key-file", w.key()}
	run := func(args ...string) ([]byte, error) {
		return exec.CommandContext(context.Background(), rig.Binary(w.t, "sallyport"), append(args, at...)...).Output()
	}
	for ctx.Err() == nil {
		out, err := run("approve", "-json")
		var waiting []json.RawMessage
		if err == nil {
			err = json.Unmarshal(out, &waiting)
		}
		if err != nil { // sandboxd is down: the clients say whether it should be
			time.Sleep(100 * time.Millisecond)
			continue
		}
		for _, raw := range waiting {
			var one struct {
				ID string `json:"id"`
			}
			if json.Unmarshal(raw, &one) != nil || one.ID == "" {
				w.t.Errorf("approve -json: %s", raw)
				return
			}
			if strings.Contains(string(raw), "deny-") {
				_, _ = run("deny", one.ID, "not in a soak") // a kill -9 may be first
			} else {
				_, _ = run("approve", one.ID)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// rotate gives a token a new value, which is then the only one that is known.
func (w *world) rotate(ctx context.Context) {
	old := w.first
	for ctx.Err() == nil {
		value := rand.Text() + rand.Text()
		temp := filepath.Join(filepath.Dir(w.rotates), "next")
		err := os.WriteFile(temp, []byte(value+"\n"), 0o600)
		if err == nil {
			err = os.Rename(temp, w.rotates)
		}
		if err != nil {
			w.t.Error(err)
			return
		}
		for end := time.Now().Add(patience); w.status(value) == 401 || w.status(old) != 401; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(end) {
				w.count("lost")
				w.t.Errorf("a new token: status %d, the old one %d, a minute later", w.status(value), w.status(old))
				return
			}
		}
		w.count("tokens rotated")
		old = value
		pause(ctx, time.Second)
	}
}

// status is what a request with a token and without a session gets: 401 from the
// edge, anything else from behind it.
func (w *world) status(token string) int {
	req, err := http.NewRequest("DELETE", w.chain.Base+"/mcp", nil)
	if err != nil {
		return 0
	}
	resp, err := rig.HTTPClient(token).Do(req)
	if err != nil {
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// linger opens connections as slow and broken clients do: half a request, a
// request byte by byte, a stream that nobody reads.
func (w *world) linger(ctx context.Context) {
	addr := strings.TrimPrefix(w.chain.WebSecure, "https://")
	for n := 0; ctx.Err() == nil; n++ {
		conn, err := tls.DialWithDialer(&net.Dialer{Timeout: patience}, "tcp", addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			w.t.Errorf("a slow client: %v", err)
			return
		}
		head := fmt.Sprintf("Host: %s\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n", addr, w.chain.Token)
		switch n % 3 {
		case 0:
			fmt.Fprintf(conn, "POST /mcp-sandbox/mcp HTTP/1.1\r\n%sContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{\"json", head)
		case 1:
			for _, c := range "GET /mcp-sandbox/sse HTTP/1.1\r\nHost: " {
				fmt.Fprintf(conn, "%c", c)
				pause(ctx, 20*time.Millisecond)
			}
		case 2:
			fmt.Fprintf(conn, "GET /mcp-sandbox/sse HTTP/1.1\r\n%s\r\n", head)
		}
		pause(ctx, time.Second)
		conn.Close()
		w.count("slow or broken connections")
	}
}

// pause waits, at most until the end.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
