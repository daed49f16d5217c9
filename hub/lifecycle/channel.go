package lifecycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/hub/mux"
	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// Limits of the hub's own listing of a server's tools.
const (
	maxPages   = 100
	maxTools   = 10000
	maxListing = 16 << 20 // bytes
)

var listBudget = 30 * time.Second

// channel is a link with what the hub knows about the process behind it.
type channel struct {
	*mux.Link
	server *Server
	slot   *slot            // among the processes of all servers
	hello  *jsonrpc.Message // what it was opened with; nil in the stateless era
	born   time.Time
	asked  bool             // its end is the hub's wish; under server.mu
	reply  *jsonrpc.Message // to initialize; nil in the stateless era; set once, under server.mu
	stale  atomic.Bool      // the tools must be listed before the next call
	asking atomic.Bool      // whether it is alive
	ready  atomic.Int64     // when hands were shaken (Unix time, ns); 0 before
	used   atomic.Bool      // a call of a client was sent
	list   sync.Mutex       // held while they are
	tools  map[string]tool
	failed error // why they could not be listed
}

// tool is one listed definition.
type tool struct {
	withheld bool
	headers  []binding
}

// modern reports a channel without a (successful) handshake.
func (ch *channel) modern() bool { return ch.reply == nil || ch.reply.IsError() }

// open dials and, with a hello, shakes hands.
func (s *Server) open(ctx context.Context, hello *jsonrpc.Message) (*channel, error) {
	if err := s.gate(ctx); err != nil {
		return nil, err
	}
	// A client that leaves meanwhile is no failure of the server.
	slot, err := s.cfg.Room.enter(ctx, s)
	if err != nil {
		s.started(nil)
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wakeBudget)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()
	conn, err := s.cfg.Dial(ctx)
	if err != nil {
		slot.leave()
		s.started(nil)
		return nil, s.unavailable(err, s.failed)
	}
	ch := &channel{server: s, slot: slot, hello: hello, born: time.Now()}
	ch.stale.Store(true)
	s.mu.Lock() // so that the end, which may come at once, waits
	ch.Link = mux.New(conn, mux.Options{Log: s.cfg.Log, Ended: ch.ended, Changed: func() { ch.stale.Store(true) },
		Expired: func() { go ch.probe(pingBudget) }})
	s.mu.Unlock()
	slot.started(ch)
	go func() {
		ch.Wait() // until the process is gone
		slot.leave()
	}()
	s.started(ch)
	if hello != nil {
		var reply *jsonrpc.Message
		reply, err = ch.Do(ctx, hello, nil)
		s.mu.Lock()
		ch.reply = reply
		s.mu.Unlock()
	}
	switch {
	case s.Gone():
		s.end(ch)
	case err == nil:
		ch.ready.Store(time.Now().UnixNano())
		return ch, nil
	case ctx.Err() != nil:
		err = fmt.Errorf("no answer to initialize within %v (%d lines were not JSON)", wakeBudget, ch.Noise())
		s.end(ch)
		return nil, s.unavailable(err, s.crashed)
	}
	ch.Close() // and wait until its end is counted
	return nil, s.unavailable(err, func(error) {})
}

// pingBudget is how long a server may take to answer a ping after a call of it
// has expired.
var pingBudget = 30 * time.Second

// probe ends a server that is there but does not answer, so that the next call
// starts another. Any answer will do: 2026-07-28 has no ping.
func (ch *channel) probe(budget time.Duration) {
	if ch.asking.Swap(true) {
		return
	}
	defer ch.asking.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), budget)
	defer cancel()
	method, params := "ping", "{}"
	if ch.reply == nil {
		method, params = "server/discover", statelessMeta
	}
	if _, err := ch.Do(ctx, mustParse(jsonrpc.Request(`"sallyport"`, method, json.RawMessage(params))),
		modernHeader(ch.reply == nil, method)); err == nil || ctx.Err() == nil {
		return
	}
	ch.server.cfg.Log.Warn("a call expired and no ping is answered: the server is ended")
	ch.End(errHung)
	ch.Close()
}

var errHung = errors.New("it answered no ping within 30 s after a call had expired")

// started accounts for the end of a start; ch is nil where it failed.
func (s *Server) started(ch *channel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starting--
	if ch != nil && ch.Err() == nil {
		s.channels[ch] = true
		s.starts++
	}
}

// end closes a channel because the hub wants to.
func (s *Server) end(ch *channel) {
	s.mu.Lock()
	ch.asked = true
	s.mu.Unlock()
	ch.Close()
}

// unavailable counts a failed start and describes it.
func (s *Server) unavailable(err error, count func(error)) error {
	if s.Gone() {
		return s.gone()
	}
	var busy *upstream.Wait
	if errors.As(err, &busy) {
		return &StateError{s.cfg.Name, "starting", err.Error(), 2 * time.Second}
	}
	count(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	text := err.Error()
	for _, w := range s.cfg.Warnings {
		text += " (" + w + ")"
	}
	return &StateError{s.cfg.Name, s.state(), text, max(time.Second, time.Until(s.until))}
}

// ended runs once when the link is over.
func (ch *channel) ended(_ *mux.Link, reason error) {
	s := ch.server
	short := s.cfg.Room.short() // while others still hold their places
	s.mu.Lock()
	delete(s.channels, ch)
	maps.DeleteFunc(s.common, func(_ bool, c *channel) bool { return c == ch })
	asked := ch.asked || s.Gone() || errors.Is(reason, upstream.ErrRenewed)
	if asked && ch.reply != nil || time.Since(ch.born) > healthy {
		s.failures, s.crashes = 0, 0
	}
	s.mu.Unlock()
	switch {
	case asked:
	case errors.Is(reason, upstream.ErrUnreachable), errors.Is(reason, upstream.ErrMemory):
		s.failed(reason)
	case short:
		s.squeezed(reason)
	default:
		s.crashed(reason)
	}
}

// shared returns the channel that serves many: for shared types everybody, for
// the others the stateless era (hello nil) and the hub itself.
func (s *Server) shared(ctx context.Context, hello *jsonrpc.Message) (*channel, error) {
	s.one.Lock()
	defer s.one.Unlock()
	if ch := s.awake(hello == nil); ch != nil {
		return ch, nil
	}
	if s.cfg.Shared && hello == nil {
		hello = ownHello
	}
	ch, err := s.open(ctx, hello)
	if err == nil && s.cfg.Shared && ch.modern() && hello != ownHello { // one client's words must not shut out all
		s.end(ch)
		ch, err = s.open(ctx, ownHello)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.common[hello == nil] = ch
	s.mu.Unlock()
	if !ch.modern() {
		ch.Forward(nil, initialized)
	}
	return ch, nil
}

// awake is the shared channel of an era, or nil while there is none.
func (s *Server) awake(modern bool) *channel {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ch := s.common[modern && !s.cfg.Shared]; ch != nil && ch.Err() == nil {
		return ch
	}
	return nil
}

var initialized = mustParse(jsonrpc.Notification("notifications/initialized", json.RawMessage("{}")))

// verify lists the tools of a new or changed process and pins their
// definitions, before any of them is called.
func (ch *channel) verify(ctx context.Context) error {
	ch.list.Lock()
	defer ch.list.Unlock()
	if !ch.stale.Swap(false) {
		return nil
	}
	ch.failed = ch.relist(ctx)
	if err := ch.failed; err != nil {
		ch.stale.Store(true)
		if errors.Is(err, context.DeadlineExceeded) { // is it alive at all? No call gets as far as to find out
			err = fmt.Errorf("it did not answer tools/list within %v", listBudget)
			ch.failed = err
			go ch.probe(pingBudget)
		}
		if ch.server.cfg.Store.Pinned(ch.server.cfg.Name) {
			return fmt.Errorf("the tools of %s cannot be compared with the accepted ones: %w", ch.server.cfg.Name, err)
		}
	}
	return nil
}

func (ch *channel) tool(name string) tool {
	ch.list.Lock()
	defer ch.list.Unlock()
	return ch.tools[name]
}

func (ch *channel) relist(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, listBudget)
	defer cancel()
	var all [][]byte
	size, cursor, seen := 0, "", map[string]bool{}
	for range maxPages {
		m, err := ch.Do(ctx, listing(ch.modern(), cursor), modernHeader(ch.modern(), "tools/list"))
		if err != nil {
			return err
		}
		if m.IsError() {
			return fmt.Errorf("tools/list: %s", m.ErrorText())
		}
		for _, at := range m.Elements(m.Find(m.Result(), "tools")) {
			all = append(all, m.Bytes(at))
		}
		size += len(m.Raw)
		if cursor = m.Text(m.Find(m.Result(), "nextCursor")); cursor == "" || seen[cursor] {
			if cursor != "" {
				ch.server.cfg.Log.Warn("tools/list names a page that was there already: the listing ends with it",
					"cursor", cursor[:min(len(cursor), 100)])
			}
			return ch.pin(all, m)
		}
		seen[cursor] = true
		if size > maxListing || len(all) > maxTools {
			break
		}
	}
	return fmt.Errorf("tools/list does not end: %d tools so far", len(all))
}

// pin compares and remembers a complete listing, whose last page is m.
func (ch *channel) pin(all [][]byte, m *jsonrpc.Message) error {
	s := ch.server
	all, twins := distinct(all)
	s.double(twins)
	s.mu.Lock()
	s.listed = len(all)
	s.mu.Unlock()
	changed, err := s.pin(all)
	if err != nil {
		return err
	}
	tools := map[string]tool{}
	for _, raw := range all {
		name, headers := describe(raw)
		tools[name] = tool{headers: headers}
	}
	for _, name := range changed {
		tools[name] = tool{withheld: true}
		s.cfg.Log.Warn("a tool's definition changed: it is withheld until `sallyport accept "+s.cfg.Name+"`", "tool",
			name[:min(len(name), 100)])
	}
	ch.tools = tools
	result := jsonrpc.Splice(m.Raw, jsonrpc.Edit{At: m.Find(m.Result(), "tools"), New: array(all)},
		jsonrpc.Edit{At: m.Find(m.Result(), "nextCursor"), New: []byte(`""`)}) // it is the whole list
	if m, err = jsonrpc.Parse(result); err == nil {
		s.rememberTools(ch, m.Bytes(m.Result()))
	}
	return nil
}
