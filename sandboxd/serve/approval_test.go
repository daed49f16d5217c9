package serve_test

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/identity"
)

// asked starts a call that waits for the owner and returns the question.
func asked(t *testing.T, s *server, session *mcp.ClientSession, tool string) (approval.Waiting, <-chan *mcp.CallToolResult) {
	t.Helper()
	done := make(chan *mcp.CallToolResult, 1)
	go func() {
		r, err := call(t, session, tool, map[string]any{"text": "secret"})
		if err != nil {
			t.Error(err)
		}
		done <- r
	}()
	var list []approval.Waiting
	eventually(t, "the call waits", func() bool { list = s.desk.Waiting(); return len(list) == 1 })
	return list[0], done
}

// A tool that asks is listed, waits, and runs or not as the owner decides.
func TestAsk(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		s := start(t, nil)
		h := with(as("token:poke", "read_file,write_file"), identity.AskHeader, "read_file,write_file", identity.RequestHeader, "edge-7")
		session, _ := connect(t, s, transport, h)
		list, err := session.ListTools(t.Context(), nil)
		if err != nil || names(list.Tools) != "read_file,write_file" {
			t.Errorf("listed: %v %v", list, err)
		}
		w, done := asked(t, s, session, "read_file")
		if w.Principal != "token:poke" || w.Arguments != `{"text":"secret"}` || strings.Contains(s.audit.String(), "begin") {
			t.Errorf("the question: %+v, audit %s", w, s.audit)
		}
		if err := s.desk.Decide(approval.Decision{ID: w.ID, Approve: true}); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r == nil || r.IsError {
			t.Errorf("approved: %v", r)
		}
		w, done = asked(t, s, session, "write_file")
		if w.Preview != "-old\n+new\n" {
			t.Errorf("the question for a write: %+v", w)
		}
		if err := s.desk.Decide(approval.Decision{ID: w.ID, Reason: "too late"}); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r == nil || !r.IsError || !strings.Contains(text(r), "too late") {
			t.Errorf("denied: %v", r)
		}
		if a := s.audit.String(); !strings.Contains(a, `"verdict":"denied"`) || strings.Count(a, `"kind":"begin"`) != 1 || strings.Count(a, `"request":"edge-7"`) < 2 || strings.Contains(a, "secret") {
			t.Errorf("audit: %s", a)
		}
	})
}

// "ask:*" beats a plain grant; the twin asks for another tool.
func TestAskBeatsPlainGrants(t *testing.T) {
	s := start(t, nil)
	session, _ := connect(t, s, "2025-11-25", with(as("token:poke", "*"), identity.AskHeader, "write_file"))
	if r, err := call(t, session, "read_file", nil); err != nil || r.IsError {
		t.Errorf("twin: %v %v", r, err)
	}
	all, _ := connect(t, s, "2025-11-25", with(as("token:poke", "*"), identity.AskHeader, "*"))
	w, done := asked(t, s, all, "read_file")
	_ = s.desk.Decide(approval.Decision{ID: w.ID})
	if r := <-done; !r.IsError {
		t.Error("it ran")
	}
}

// A paused server runs nothing and says so; a running call that the owner stops
// says so too.
func TestPauseAndStopInWords(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		s := start(t, nil)
		session, _ := connect(t, s, transport, as("token:poke", "*"))
		s.desk.Pause("token:poke", "lunch")
		if r, err := call(t, session, "read_file", nil); err != nil || !r.IsError || !strings.Contains(text(r), "paused") || !strings.Contains(text(r), "lunch") {
			t.Errorf("paused: %v %v", r, err)
		}
		if err := s.desk.Resume("token:poke"); err != nil {
			t.Fatal(err)
		}
		done := make(chan *mcp.CallToolResult, 1)
		go func() {
			r, err := call(t, session, "run_command", map[string]any{"text": "stop me"})
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		<-s.started
		if err := s.desk.Stop(s.desk.Running()[0].ID, true); err != nil {
			t.Fatal(err)
		}
		if r := <-done; r == nil || !r.IsError || !strings.Contains(text(r), "owner stopped") {
			t.Errorf("stopped: %v", r)
		}
		if a := s.audit.String(); !strings.Contains(a, `"verdict":"stopped"`) || !strings.Contains(a, `"event":"stopped"`) {
			t.Errorf("audit: %s", a)
		}
	})
}

// What no tool has said has a type too where the stateless protocol demands one
// (a client of version 2 throws the result away without it), and none elsewhere.
func TestRefusalsHaveAType(t *testing.T) {
	s := start(t, nil)
	const named = `"resultType":"complete"`
	ran := func(name string) string {
		_, body := modernCall(t, s, as("token:poke", "*"), "tools/call", name, `"name":"`+name+`","arguments":{"text":"x"},`)
		return body
	}
	if got := ran("read_file"); !strings.Contains(got, named) || strings.Contains(got, `"isError":true`) {
		t.Errorf("twin, a tool's result: %s", got)
	}
	done := make(chan string, 1)
	go func() { done <- ran("run_command") }()
	<-s.started
	if err := s.desk.Stop(s.desk.Running()[0].ID, true); err != nil {
		t.Fatal(err)
	}
	if got := <-done; !strings.Contains(got, named) || !strings.Contains(got, "owner stopped") {
		t.Errorf("stopped: %s", got)
	}
	s.desk.Pause("", "lunch")
	if got := ran("read_file"); !strings.Contains(got, named) || !strings.Contains(got, "lunch") {
		t.Errorf("paused: %s", got)
	}
	h := as("token:poke", "*")
	opened, _ := send(t, "POST", s.URL+"/mcp", jsonHeader(h), initialize)
	h = jsonHeader(h, "Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"))
	if _, got := send(t, "POST", s.URL+"/mcp", h, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read_file","arguments":{"text":"x"}}}`); strings.Contains(got, "resultType") || !strings.Contains(got, "lunch") {
		t.Errorf("in a session: %s", got)
	}
}
