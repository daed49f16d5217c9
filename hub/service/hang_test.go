package service_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/hub/service"
	"github.com/sallyport-dev/sallyport/internal/identity"
)

// stuck is a server that takes connections and says nothing.
func stuck(t *testing.T) (entry string) {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "stuck")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return fmt.Sprintf(`{"type":"unix","socket":%q}`, socket)
}

// A server that does not wake keeps nobody from the others, also within one
// session of the aggregate, and a call that waits for it can be canceled.
func TestStuckServerBlocksOnlyItself(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"stuck": stuck(t), "s": entry}, nil)
	c := b.dial("mcp", "", nil)
	go c.call("1", "tools/call", `{"name":"call_tool","arguments":{"server":"stuck","tool":"echo","arguments":{}}}`)
	eventually(t, "it is being woken", func() bool { state, _ := b.status("stuck"); return state == "running" })
	if got := c.call("2", "tools/call", `{"name":"call_tool","arguments":{"server":"s","tool":"echo","arguments":{"x":1}}}`); !strings.Contains(got, `{"x":1}`) {
		t.Errorf("the other server: %s", got)
	}
}

// A request whose server is taken away, or whose hub ends, is answered: a client
// that hears nothing waits for its own deadline.
func TestEveryRequestIsAnswered(t *testing.T) {
	for _, how := range []string{"edited", "closed"} {
		for _, when := range []string{"waking", "calling"} {
			l, entry := listen(t, "unix")
			if when == "waking" {
				entry = stuck(t)
			}
			b := start(t, map[string]string{"s": entry}, nil)
			h, body := http.Header(nil), hello
			if when == "calling" {
				c := b.dial("mcp", "s", nil).(*session)
				h, body = c.header, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wait","arguments":{}}}`
			}
			answer := make(chan string, 1)
			go func() {
				resp := b.do("POST", "/servers/s/mcp", body, h.Clone())
				raw, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				answer <- fmt.Sprintf("%d %s %v", resp.StatusCode, raw, err)
			}()
			eventually(t, "it runs", func() bool {
				state, _ := b.status("s")
				return state == "running" && (when == "waking" || l.heard("tools/call"))
			})
			if how == "closed" {
				b.Close()
			} else {
				b.write(map[string]string{"s": strings.Replace(entry, "{", `{"idleMinutes":7,`, 1)})
			}
			if got := <-answer; !strings.Contains(got, `"error"`) || strings.HasPrefix(got, "202") {
				t.Errorf("%s while %s: %s", how, when, got)
			} else if edited := strings.Contains(got, "its entry in mcp.json was changed"); edited != (how == "edited") ||
				strings.Contains(got, "the hub was stopped") == edited {
				t.Errorf("%s while %s: told %s", how, when, got)
			}
		}
	}
}

// An edit that is seen while the hub ends starts nothing: nobody would end it. The twin is
// every other test that edits.
func TestNothingBeginsBesideTheEnd(t *testing.T) {
	l, entry := listen(t, "unix")
	b := start(t, map[string]string{}, nil)
	b.Close()
	b.write(map[string]string{"s": strings.Replace(entry, "{", `{"keepAlive":true,`, 1)})
	service.Reload(b.Hub)
	if n := len(b.Visible(identity.Identity{Tools: []string{"*"}})); n != 0 {
		t.Errorf("%d servers began; the server was woken %d times", n, l.count())
	}
}

// A file that was gone for a moment and is back as it was is in force again, and
// is said to be.
func TestFileThatWasGone(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	inForce := func() bool {
		resp := b.do("GET", "/status", "", nil)
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return strings.Contains(string(body), `"config":"in force"`)
	}
	if err := os.Rename(b.config, b.config+".away"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is missed", func() bool { return !inForce() })
	if err := os.Rename(b.config+".away", b.config); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is in force again", inForce)
}

// A hub that finds no mcp.json of use at its start has no good one that could stay in force,
// and says where the file is described. Later an unusable one leaves the good one in force.
func TestFileOfNoUse(t *testing.T) {
	_, entry := listen(t, "unix")
	b := start(t, map[string]string{"s": entry}, nil)
	keeps := "the last good one stays in force"
	if err := os.WriteFile(b.config, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is said", func() bool { return strings.Contains(b.log.String(), keeps) })
	log := &buffer{}
	set := service.Settings{ServersFile: b.config, StateDir: t.TempDir()}
	_, err := service.New(set, b.desk, slog.New(slog.NewTextHandler(log, nil)))
	if err == nil || !strings.Contains(err.Error(), "docs/mcp-json.md") || strings.Contains(log.String(), keeps) {
		t.Errorf("%v, log %s", err, log.String())
	}
}
