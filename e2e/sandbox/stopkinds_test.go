package sandbox

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

// Whatever the owner stops, its client is told so: a call that waits, a command in the
// background, and the calls of a session. The twin of the last is another session, which
// goes on.
func TestClientsAreToldWhatWasStopped(t *testing.T) {
	rig.NeedRoot(t)
	id, _ := strconv.Atoi(uid)
	dir, workspace := owned(t, id), rig.PublicDir(t)
	if err := os.Chown(workspace, id, id); err != nil {
		t.Fatal(err)
	}
	s := startOwned(t, dir, workspace)
	owner := s.owner()
	stop := func(id string) {
		t.Helper()
		if err := owner.Do(ownersock.Request{Op: ownersock.OpStop, ID: id, Now: true}, nil); err != nil {
			t.Fatal(err)
		}
	}
	open := func(ask string) *mcp.ClientSession {
		t.Helper()
		session, err := s.connect(ask)
		if err != nil {
			t.Fatal(err)
		}
		return session
	}
	// Sessions are of the protocols before 2026-07-28, here HTTP+SSE.
	inSession := func() *mcp.ClientSession {
		t.Helper()
		c := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
		session, err := c.Connect(t.Context(), &mcp.SSEClientTransport{Endpoint: s.URL + "/mcp-sandbox/sse",
			HTTPClient: &http.Client{Transport: asking{s.Token, ""}}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return session
	}
	waiting, plain, other := open("run_command"), inSession(), inSession()
	// call makes a call and returns its entry on the owner's list, once it is there.
	call := func(session *mcp.ClientSession, command string) (desk.Entry, <-chan string) {
		t.Helper()
		told := make(chan string, 1)
		go func() {
			r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_command", Arguments: map[string]any{"command": command}})
			if err != nil {
				told <- "no result: " + err.Error()
			} else {
				told <- rig.Text(r)
			}
		}()
		var found desk.Entry
		rig.Until(t, "the call is on the list", func() bool {
			var list []desk.Entry
			if err := owner.Do(ownersock.Request{Op: ownersock.OpRunning}, &list); err != nil {
				t.Fatal(err)
			}
			for _, e := range list {
				if e.Command == command || session == waiting && e.State == "waiting" {
					found = e
				}
			}
			return found.ID != ""
		}, s.Process)
		return found, told
	}

	waits, told := call(waiting, "echo never")
	stop(waits.ID)
	if got := <-told; !strings.Contains(got, "owner stopped") || !strings.Contains(got, "nothing was run") {
		t.Errorf("a call that waits: %s", got)
	}

	started, err := plain.CallTool(t.Context(), &mcp.CallToolParams{Name: "start_command", Arguments: map[string]any{"command": "echo begun; sleep 600"}})
	if err != nil || started.IsError {
		t.Fatal(started, err)
	}
	handle, _ := started.StructuredContent.(map[string]any)["handle"].(string)
	var list []desk.Entry
	if err := owner.Do(ownersock.Request{Op: ownersock.OpRunning}, &list); err != nil || len(list) != 1 || list[0].State != "background" {
		t.Fatal(list, err)
	}
	stop(list[0].ID)
	rig.Until(t, "what was stopped in the background is told", func() bool {
		r, err := plain.CallTool(t.Context(), &mcp.CallToolParams{Name: "command_output", Arguments: map[string]any{"handle": handle, "wait_seconds": 1}})
		return err != nil || strings.Contains(rig.Text(r), "owner stopped")
	}, s.Process)

	first, told := call(plain, "echo one; sleep 600")
	second, goesOn := call(other, "echo two; sleep 601")
	stop(first.Session)
	if got := <-told; !strings.Contains(got, "owner stopped") {
		t.Errorf("a call of a stopped session: %s", got)
	}
	if err := owner.Do(ownersock.Request{Op: ownersock.OpRunning}, &list); err != nil || len(list) != 1 || list[0].ID != second.ID {
		t.Errorf("what still runs: %v %v", list, err)
	}
	stop(second.ID)
	if got := <-goesOn; !strings.Contains(got, "owner stopped") {
		t.Errorf("the other session's: %s", got)
	}
}
