package ownersock_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

const right = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// serve starts a server and returns its desk and paths.
func serve(t *testing.T) (d *desk.Desk, socket, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	socket, keyFile = filepath.Join(dir, "owner.sock"), filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte(right+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ownersock.Listen(socket, keyFile, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Desk, s.Process = desk.New(nil, nil), "sandboxd"
	s.Extra = map[string]ownersock.Handler{"servers": func(ownersock.Request) (any, error) { return []string{"one"}, nil }}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s.Desk, socket, keyFile
}

func dial(t *testing.T, socket, keyFile string) *ownersock.Client {
	t.Helper()
	c, err := ownersock.Dial(t.Context(), socket, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestApproveThroughTheSocket(t *testing.T) {
	d, socket, keyFile := serve(t)
	c := dial(t, socket, keyFile)
	events := make(chan desk.Event, 10)
	listening := make(chan struct{})
	go dial(t, socket, keyFile).Events(t.Context(), func() { close(listening) }, func(e desk.Event) { events <- e })
	<-listening
	call := make(chan error, 1)
	go func() {
		ticket, err := d.Admit(t.Context(), desk.Call{Ask: true, Call: audit.Call{Principal: "token:poke", Tool: "run_command", Arguments: []byte(`{"command":"ls"}`)}})
		if err == nil {
			ticket.End("ok", 0)
		}
		call <- err
	}()
	e := <-events
	var list []approval.Waiting
	if err := c.Do(ownersock.Request{Op: ownersock.OpPending}, &list); err != nil || len(list) != 1 || list[0].ID != e.ID || list[0].Arguments != `{"command":"ls"}` {
		t.Fatalf("%v %+v, event %+v", err, list, e)
	}
	decide := ownersock.Request{Op: ownersock.OpDecide, ID: e.ID, Approve: true}
	if err := c.Do(decide, nil); err != nil {
		t.Fatal(err)
	}
	var refused ownersock.RefusedError
	if err := c.Do(decide, nil); !errors.As(err, &refused) {
		t.Errorf("decided twice: %v", err)
	}
	if err := <-call; err != nil {
		t.Error(err)
	}
	var s ownersock.Status
	if err := c.Do(ownersock.Request{Op: ownersock.OpStatus}, &s); err != nil || s.Process != "sandboxd" || s.Counters["ok"] != 1 {
		t.Errorf("%v %+v", err, s)
	}
}

func TestOperations(t *testing.T) {
	d, socket, keyFile := serve(t)
	c := dial(t, socket, keyFile)
	if err := c.Do(ownersock.Request{Op: ownersock.OpPause, Principal: "token:poke", Reason: "x"}, nil); err != nil || d.Paused()["token:poke"] != "x" {
		t.Errorf("%v, %v", err, d.Paused())
	}
	for _, r := range []ownersock.Request{
		{Op: "nonsense"}, {Op: ownersock.OpStop, ID: "x"}, {Op: ownersock.OpOutput, ID: "x"}, {Op: ownersock.OpResume}, {Op: ownersock.OpDecide, ID: "x"},
	} {
		if err := c.Do(r, nil); err == nil {
			t.Errorf("%+v is answered", r)
		}
	}
	var names []string
	if err := c.Do(ownersock.Request{Op: ownersock.OpServers}, &names); err != nil || len(names) != 1 {
		t.Error(err, names)
	}
	for _, op := range []string{ownersock.OpRunning, ownersock.OpSessions, ownersock.OpPending} {
		var list json.RawMessage
		if err := c.Do(ownersock.Request{Op: op}, &list); err != nil || string(list) != "[]" {
			t.Errorf("%s: %v %s", op, err, list)
		}
	}
}

// Without the key nothing is answered. The twin is each other test.
func TestNoAnswerWithoutTheKey(t *testing.T) {
	_, socket, _ := serve(t)
	other := filepath.Join(t.TempDir(), "key")
	os.WriteFile(other, []byte(strings.Repeat("0", 64)), 0o600)
	if _, err := ownersock.Dial(t.Context(), socket, other); err == nil {
		t.Error("another key is accepted")
	}
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(10 * time.Second))
	c.Write([]byte(`{"op":"status"}` + strings.Repeat(" ", 64) + "\n"))
	got := make([]byte, 100)
	if n, _ := c.Read(got); strings.Contains(string(got[:n]), "process") {
		t.Errorf("%s", got[:n])
	}
}
