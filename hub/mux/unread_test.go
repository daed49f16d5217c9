package mux_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/hub/mux"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// final keeps the last word on a call.
type final chan string

func (f final) Deliver(raw []byte, last bool) {
	if last {
		f <- string(raw)
	}
}

// calling is a link on which one call, the first, runs; its end comes on the channel.
func calling(t *testing.T, timeout time.Duration) (asking, final) {
	t.Helper()
	conn := asking{lines: make(chan string), sent: make(chan string, 10)}
	l := mux.New(conn, mux.Options{Log: slog.New(slog.DiscardHandler), Ended: func(*mux.Link, error) {}})
	t.Cleanup(func() { close(conn.lines) })
	m, err := jsonrpc.Parse(jsonrpc.Request(`"mine"`, "tools/call", []byte(`{"name":"x"}`)))
	end := make(final, 1)
	if err == nil {
		err = l.Start(&mux.Call{Message: m, Client: &client{"a"}, Sink: end, Timeout: timeout})
	}
	if err != nil {
		t.Fatal(err)
	}
	<-conn.sent
	return conn, end
}

// An answer that cannot be read ends its call at once, with the reason; nothing else
// would come.
func TestUnreadableAnswerEndsItsCall(t *testing.T) {
	for line, why := range map[string]string{
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"b\tc\"}}":   "not JSON",
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"a\":\"b\x00c\"}}": "not JSON",
		`{"jsonrpc":"2.0","id":1,"result":{},"result":{"x":1}}`:        "twice",
		`{"jsonrpc":"2.0","id":1,"id":1,"result":{}}`:                  "twice",
		`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1}}`:      "neither",
		`{"jsonrpc":"2.0","id":1,"result":{},"Result":{}}`:             "unlike",
		`{"jsonrpc":"1.0","id":1,"result":{}}`:                         "2.0",
		`[{"jsonrpc":"2.0","id":1,"result":{}}]`:                       "batches",
		`{"result":{"a":NaN},"jsonrpc":"2.0","id":1}`:                  "not JSON",
		`{"jsonrpc":"2.0","result":{"a":[1,]},"id":"1"}`:               "not JSON",
		`{"jsonrpc":"2.0","id":1,"result":{"a":Infinity}}` + "\r":      "not JSON",
	} {
		conn, end := calling(t, time.Minute)
		conn.lines <- line
		if got := <-end; !strings.Contains(got, `"id":"mine","error"`) || !strings.Contains(got, "cannot be read") || !strings.Contains(got, why) {
			t.Errorf("%q: %s", line, got)
		}
	}
}

// A line that is not an answer ends no call, whatever ids stand in it: the true answer
// still comes. It may say its id as a float, and bytes that are not UTF-8 are replaced.
func TestOtherLinesEndNoCall(t *testing.T) {
	for _, noise := range []string{
		"Server ready", `DEBUG sending {"jsonrpc":"2.0","id":1,"result":{}}`, `{"id":1,"error":"x","level":30}`, `{"jsonrpc":"2.0","id":2,"result":{},"result":{}}`,
		`{"level":"info","sent":{"jsonrpc":"2.0","result":{},"id":1}}`, `{"jsonrpc":"2.0","id":1,"method":"x","method":"y"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
		"{", `  "id": 1,`, `{"jsonrpc":"2.0","method":"a","method":"b","params":{"result":{"id":1}}}`,
	} {
		conn, end := calling(t, time.Minute)
		conn.lines <- noise
		conn.lines <- "{\"jsonrpc\":\"2.0\",\"id\":1.0,\"result\":{\"a\":\"\xfc\"}}"
		if got := <-end; got != `{"jsonrpc":"2.0","id":"mine","result":{"a":"`+"\ufffd"+`"}}` {
			t.Errorf("after %q: %s", noise, got)
		}
	}
}

// Who runs into the deadline is told of lines that may have been the answer.
func TestDeadlineNamesNoise(t *testing.T) {
	for n := range 2 {
		conn, end := calling(t, time.Duration(100+3000*n)*time.Millisecond) // the noise has to come before it
		for range n {
			conn.lines <- "{"
		}
		if got := <-end; strings.Contains(got, fmt.Sprintf("%d lines", n)) != (n > 0) || !strings.Contains(got, "did not end") {
			t.Errorf("%d lines: %s", n, got)
		}
	}
}
