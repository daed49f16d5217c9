package soak

import (
	"context"
	"crypto/rand"
	"encoding/json"
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

// call is one that a visitor makes, and what is wrong about its answer: nothing, or words.
type call func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string)

// A way is how visitors come: what a client is given, and the parts on the path, whose
// end excuses a lost answer.
type way struct {
	base, token string
	how         rig.Transport
	parts       []*part
}

// now is the state of all parts, and whether one of them is away.
func (y way) now() (state int64, away bool) {
	for _, p := range y.parts {
		n := p.generation.Load()
		state, away = state+n, away || n%2 == 1
	}
	return state, away
}

// excused reports whether a part ended since then, or is away.
func (y way) excused(since int64) bool {
	now, away := y.now()
	return now != since || away
}

// toSandbox is the way of a token to the sandbox.
func (w *world) toSandbox(token string, how rig.Transport) way {
	return way{w.chain.Base, token, how, []*part{w.traefik, w.sandbox}}
}

// visit connects, calls until the end, and connects again where a part's end cut it off.
func (w *world) visit(ctx context.Context, y way, next call) {
	for ctx.Err() == nil {
		since, _ := y.now()
		session, err := w.connect(y)
		if err != nil {
			w.failed(y, since, "connecting over "+string(y.how), err)
			pause(ctx, 100*time.Millisecond)
			continue
		}
		w.count("sessions over " + map[rig.Transport]string{rig.SSE: "SSE", rig.Streamable: "streamable HTTP"}[y.how])
		for ctx.Err() == nil && w.callOnce(y, &since, session, next) {
		}
		session.Close()
	}
}

// connect is given up after patience. The session goes on after that: one over SSE lives
// as long as its context, which has no deadline therefore.
func (w *world) connect(y way) (*mcp.ClientSession, error) {
	ctx, cancel := context.WithCancel(context.Background())
	w.t.Cleanup(cancel)
	defer time.AfterFunc(patience, cancel).Stop()
	return rig.TryConnect(ctx, y.base, y.token, y.how)
}

// callOnce reports whether the session can go on. since is when the session was last
// known to be whole: an end of a part after that may have cut it off.
func (w *world) callOnce(y way, since *int64, session *mcp.ClientSession, next call) bool {
	params, check := next()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	begun, _ := y.now()
	w.count("calls sent")
	result, err := session.CallTool(ctx, params)
	if err != nil {
		w.failed(y, *since, params.Name, err)
		return false
	}
	w.count("calls answered")
	if wrong := check(result); wrong == "" {
		*since = begun
	} else if y.excused(*since) {
		w.count("refused while a part was away")
		time.Sleep(100 * time.Millisecond) // leave the machine to what comes back
	} else {
		w.count("crossed or wrong answers")
		w.t.Errorf("%s %v: %s: %.300s", params.Name, params.Arguments, wrong, rig.Text(result))
	}
	return true
}

// failed counts an error: of a part's end, or a loss.
func (w *world) failed(y way, since int64, what string, err error) {
	if y.excused(since) {
		w.count("cut off by the end of a part")
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
func (w *world) file() call {
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
func (w *world) hostile() call {
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
func (w *world) asked() call {
	n := 0
	return func() (*mcp.CallToolParams, func(*mcp.CallToolResult) string) {
		n++
		id, deny := rand.Text(), n%2 == 0
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
		for end := time.Now().Add(patience); !w.rotated(old, value); time.Sleep(50 * time.Millisecond) {
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

// rotated reports whether the edge knows the new value and no longer the old one.
func (w *world) rotated(old, value string) bool {
	now := w.status(value)
	return now != 401 && now != 0 && w.status(old) == 401
}

// status is what a request with a token and without a session gets: 401 from the
// edge, anything else from behind it.
func (w *world) status(token string) int { return w.statusAt(w.chain.Base+"/mcp", token) }

func (w *world) statusAt(url, token string) int {
	req, err := http.NewRequest("DELETE", url, nil)
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

// pause waits, at most until the end.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
