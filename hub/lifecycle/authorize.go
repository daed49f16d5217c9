package lifecycle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sallyport-dev/sallyport/hub/mux"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
)

// refuse answers a call of a tool that its sender may not call. nil lets it
// pass.
func (s *Server) refuse(req mcphttp.Request) []byte {
	m := req.Message
	if m.Method != "tools/call" {
		return nil
	}
	tool := m.Text(m.Param("name"))
	switch name := s.cfg.Name; {
	case tool == "":
		return jsonrpc.Fault(m.ID(), jsonrpc.InvalidParams, "params.name must be the name of a tool")
	case !req.Identity.GrantedOn(name, tool):
		return jsonrpc.Fault(m.ID(), jsonrpc.InvalidParams, "%s has no grant for %s/%s", req.Identity.Principal, name,
			tool)
	}
	return nil
}

// vet refuses a call of a withheld tool, or one whose headers say something
// else than its body.
func (s *Server) vet(ctx context.Context, ch *channel, req mcphttp.Request) error {
	m := req.Message
	if m.Method != "tools/call" && m.Method != "tools/list" {
		return nil
	}
	if err := ch.verify(ctx); err != nil || m.Method == "tools/list" {
		return err
	}
	name := m.Text(m.Param("name"))
	if slices.Contains(s.doubled(), name) {
		return fmt.Errorf("%s lists the tool %q twice with different definitions: neither is called, since it is not "+
			"known which one was accepted", s.cfg.Name, name)
	}
	t, pending := ch.tool(name), slices.Contains(s.cfg.Store.Pending(s.cfg.Name), name)
	if t.withheld && !pending {
		ch.stale.Store(true) // accepted since: look again
		if err := ch.verify(ctx); err != nil {
			return err
		}
		t = ch.tool(name)
	}
	if t.withheld || pending { // the latter where only a client's own listing showed it
		return fmt.Errorf("the definition of %s changed since it was first used: it is withheld until the owner runs "+
			"`sallyport accept %s`", name, s.cfg.Name)
	}
	if req.Header != nil {
		return t.check(req.Header, m)
	}
	return nil
}

// newCall prepares a request for its way.
func (s *Server) newCall(req mcphttp.Request) *mux.Call {
	c := &mux.Call{Message: req.Message, Sink: req.Sink, Header: req.Header, Timeout: s.cfg.CallTimeout}
	switch req.Message.Method {
	case "tools/list":
		c.Rewrite = func(m *jsonrpc.Message) []byte { return s.filter(req, m) }
	case "subscriptions/listen":
		c.Timeout = 0 // it lasts as long as its client listens
	}
	return c
}

// filter takes out of a tools/list answer what its reader may not call and what
// is withheld. An answer that loses nothing keeps every byte.
func (s *Server) filter(req mcphttp.Request, m *jsonrpc.Message) []byte {
	at, err := m.Find(m.Result(), "tools"), m.Strict(m.Result(), "tools")
	var all, kept [][]byte
	for _, e := range m.Elements(at) {
		all, err = append(all, m.Bytes(e)), errors.Join(err, m.Strict(e, "name", "inputSchema"))
	}
	listed := len(all)
	all, twins := distinct(all)
	changed, unread := s.pin(all)
	if twins = append(twins, s.doubled()...); len(twins) > 0 { // the others may be on another page
		slices.Sort(twins)
		twins = slices.Compact(twins)
		s.double(twins)
	}
	if err = errors.Join(err, unread); err != nil {
		return jsonrpc.Fault(m.ID(), jsonrpc.InternalError, "the tools cannot be compared with the accepted ones: %v",
			err)
	}
	for _, raw := range all {
		name, _ := describe(raw)
		if req.Identity.GrantedOn(s.cfg.Name, name) && !slices.Contains(changed, name) &&
			!slices.Contains(twins, name) {
			kept = append(kept, raw)
		}
	}
	edits := []jsonrpc.Edit{}
	if len(kept) < listed {
		edits = append(edits, jsonrpc.Edit{At: at, New: array(kept)})
	}
	// A page that leads to itself would be read indefinitely.
	if next := m.Find(m.Result(), "nextCursor"); next.Present() &&
		m.Text(next) == req.Message.Text(req.Message.Param("cursor")) {
		edits = append(edits, jsonrpc.Edit{At: next, New: []byte(`""`)})
	}
	// What depends on the reader must not be cached for others.
	if scope := m.Find(m.Result(), "cacheScope"); !req.Identity.All() {
		edits = append(edits, jsonrpc.Edit{At: scope, New: []byte(`"private"`)})
	}
	return jsonrpc.Splice(m.Raw, edits...)
}

// array is a JSON array of the values.
func array(values [][]byte) []byte {
	return append(append([]byte("["), bytes.Join(values, []byte(","))...), ']')
}
