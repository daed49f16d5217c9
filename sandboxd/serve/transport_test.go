package serve_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

func TestEveryTransportGivesTheSame(t *testing.T) {
	s := start(t, nil)
	var mu sync.Mutex
	seen := map[string]string{}
	t.Run("all", func(t *testing.T) {
		eachTransport(t, func(t *testing.T, transport string) {
			c, _ := connect(t, s, transport, as("token:poke", "*"))
			got := everything(t, c)
			mu.Lock()
			defer mu.Unlock()
			seen[transport] = got
		})
	})
	for transport, got := range seen {
		if got != seen["sse"] {
			t.Errorf("%s differs from sse:\n%s\n%s", transport, got, seen["sse"])
		}
	}
	if !strings.Contains(seen["sse"], "token:poke") || !strings.HasSuffix(seen["sse"], "-32602,-32603]") {
		t.Errorf("nothing useful was compared: %s", seen["sse"])
	}
}

// everything is what a client sees, without what differs by design.
func everything(t *testing.T, c *mcp.ClientSession) string {
	var all []any
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all = append(all, list.Tools, c.InitializeResult().Instructions)
	for _, args := range []map[string]any{
		{"text": "a\u2028\x00\"\n"}, {"size": 1000}, {"text": "fail"}, {"nothing": "of that name"},
	} {
		r, err := call(t, c, "read_file", args)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.Content, r.StructuredContent, r.IsError)
	}
	_, err = call(t, c, "no_such_tool", nil)
	all = append(all, code(err))
	_, err = call(t, c, "write_file", nil)
	all = append(all, code(err))
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// code is the JSON-RPC error code of err; the text around it differs, because
// the stateless protocol has HTTP statuses for some of them.
func code(err error) int64 {
	var e *jsonrpc.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// A client that goes away ends its command; the same call goes on while the
// client stays.
func TestVanishedClientEndsItsCall(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		s := start(t, nil)
		c, cut := connect(t, s, transport, as("", ""))
		go func() {
			_, _ = c.CallTool(context.WithoutCancel(t.Context()), &mcp.CallToolParams{Name: "run_command"})
		}()
		receive(t, "the call starts", s.started)
		other, _ := connect(t, s, transport, as("", ""))
		if r, err := call(t, other, "read_file", map[string]any{"text": "still here"}); err != nil || r.IsError {
			t.Fatalf("another client's call: %v %v", r, err)
		}
		select {
		case err := <-s.ended:
			t.Fatalf("the call ended while its client was there: %v", err)
		default:
		}
		cut()
		if err := receive(t, "the call ends", s.ended); err != context.Canceled {
			t.Errorf("the call ended with %v", err)
		}
		eventually(t, "the audit says canceled", func() bool { return strings.Contains(s.audit.String(), `"canceled"`) })
	})
}

// Progress arrives before the result, and an error after it still arrives whole.
func TestProgress(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		s := start(t, nil)
		c, _ := connect(t, s, transport, as("", ""))
		for _, said := range []string{"fine", "protocol error"} {
			params := &mcp.CallToolParams{Name: "read_file", Arguments: input{Text: said}}
			params.SetProgressToken("p-" + said)
			r, err := c.CallTool(t.Context(), params)
			if got := receive(t, "progress", s.progress); got != "begun" {
				t.Errorf("progress says %q", got)
			}
			answer := fmt.Sprint(err)
			if err == nil {
				answer = fmt.Sprintf("error %v: %s", r.IsError, text(r))
			}
			if want := map[string]string{"fine": "error false", "protocol error": "too late for a status"}[said]; !strings.Contains(answer, want) {
				t.Errorf("%s: %s", said, answer)
			}
		}
		if r, err := call(t, c, "read_file", map[string]any{"text": "next"}); err != nil || r.IsError {
			t.Errorf("the next call: %v %v", r, err)
		}
	})
}

// A client that cancels one call keeps its session.
func TestCancelledCall(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		s := start(t, nil)
		c, _ := connect(t, s, transport, as("", ""))
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "run_command"})
			done <- err
		}()
		receive(t, "the call starts", s.started)
		cancel()
		receive(t, "the call ends", s.ended)
		if err := receive(t, "the client returns", done); err == nil {
			t.Error("the cancelled call returned a result")
		}
		if r, err := call(t, c, "read_file", map[string]any{"text": "next"}); err != nil || !strings.Contains(text(r), "next") {
			t.Errorf("the next call: %v %v", r, err)
		}
	})
}

func TestPanicIsOneFailedCall(t *testing.T) {
	eachTransport(t, func(t *testing.T, transport string) {
		s := start(t, nil)
		c, _ := connect(t, s, transport, as("", ""))
		if _, err := call(t, c, "write_file", nil); err == nil || !strings.Contains(err.Error(), "internal error") {
			t.Errorf("the panicking call: %v", err)
		}
		if r, err := call(t, c, "read_file", map[string]any{"text": "next"}); err != nil || !strings.Contains(text(r), "next") {
			t.Errorf("the next call: %v %v", r, err)
		}
		if log := s.log.String(); !strings.Contains(log, `"panic":"as asked"`) {
			t.Errorf("the log does not tell of the panic: %s", log)
		}
		if a := s.audit.String(); !strings.Contains(a, `"verdict":"panic"`) {
			t.Errorf("the audit does not tell of the panic: %s", a)
		}
	})
}

// Clients that use equal IDs at once each get their own answers.
func TestClientsSeeOnlyTheirOwn(t *testing.T) {
	s := start(t, nil)
	var wg sync.WaitGroup
	for i := range 50 {
		transport := []string{"sse", "2025-11-25", "2026-07-28"}[i%3]
		principal := fmt.Sprintf("token:client-%d", i)
		c, _ := connect(t, s, transport, as(principal, "*"))
		wg.Go(func() {
			for k := range 5 {
				want := fmt.Sprintf("client %d call %d", i, k)
				r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: input{Text: want}})
				if err != nil || !strings.Contains(text(r), want+`"`) || !strings.Contains(text(r), principal+`"`) {
					t.Errorf("%s: %v %v", want, r, err)
				}
			}
		})
	}
	wg.Wait()
}

// A shutdown ends calls with a result that says why, then the streams, however long
// it takes until the result is out.
func TestCloseTellsWhy(t *testing.T) {
	for _, transport := range []string{"sse", "2025-11-25", "2026-07-28"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			s := start(t, nil)
			c, _ := connect(t, s, transport, as("", ""))
			type answer struct {
				r   *mcp.CallToolResult
				err error
			}
			done := make(chan answer, 1)
			go func() {
				r, err := c.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_command", Arguments: input{Text: "late"}})
				done <- answer{r, err}
			}()
			receive(t, "the call starts", s.started)
			s.Close()
			a := receive(t, "the call returns", done)
			if a.err != nil || !a.r.IsError || !strings.Contains(text(a.r), "shutting down") {
				t.Errorf("the call returned %v %v", a.r, a.err)
			}
			if resp, _ := send(t, "GET", s.URL+"/sse", as("", ""), ""); resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
				t.Errorf("a new stream while shutting down: %d", resp.StatusCode)
			}
		})
	}
}
