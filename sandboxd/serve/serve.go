// Package serve is the sandbox: an MCP server over HTTP+SSE and streamable HTTP
// for one directory. Its files in the order in which a request meets them:
// handler.go (who may come in), internal/mcphttp (the transports), target.go
// and link.go (from a message to the SDK), message.go (what is known about who
// sent it), receive.go (what every message goes through), call.go (may this
// tool run), tool/ (what it does).
package serve

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/mcphttp"
	"github.com/sallyport-dev/sallyport/internal/process"
	idle "github.com/sallyport-dev/sallyport/internal/session"
	"github.com/sallyport-dev/sallyport/sandboxd/tool"
)

// Tools are what a Server offers.
type Tools interface {
	// Register adds them to the SDK's server.
	Register(*mcp.Server)
	// Change is the digest of the file that a call of a writing tool would
	// replace, and a diff of what it would do.
	Change(tool string, arguments json.RawMessage) (digest, preview string, err error)
}

// Server serves one workspace to any number of clients.
type Server struct {
	set      Settings
	log      *slog.Logger
	desk     *desk.Desk
	tools    Tools
	mcp      *mcp.Server
	sessions *idle.Table
	front    *mcphttp.Front
	handle   mcp.MethodHandler // what the SDK does with a message, our checks first
	indirect bool              // for a test: every call goes through the SDK's connection
	running  atomic.Int64      // calls of tools, and of those that wait for an answer
	held     atomic.Int64      // bytes of these calls
	maxHeld  int64
	brief    chan struct{} // has a place for each call that reads or writes a file; see turn
	requests atomic.Int64  // HTTP requests since the start

	stopping context.Context // ends first: calls end with a result that says so
	stop     context.CancelFunc
	ended    context.Context // ends then: streams and all other requests end
	end      context.CancelFunc
}

// New makes a server. It starts nothing but the watch over idle sessions; the
// caller serves Handler and calls Close at the end.
func New(set Settings, tools Tools, d *desk.Desk, log *slog.Logger) *Server {
	if set.Tools == nil {
		set.Tools = tool.Default
	}
	s := &Server{set: set, log: log, desk: d, tools: tools, sessions: idle.NewTable(set.MaxSessions), maxHeld: maxHeld,
		brief: make(chan struct{}, max(16, 2*runtime.GOMAXPROCS(0)))}
	s.front = mcphttp.New(s.sessions, log)
	d.ShowSessions(s.sessions)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.ended, s.end = context.WithCancel(context.Background())
	s.mcp = mcp.NewServer(
		&mcp.Implementation{Name: "sallyport", Title: "Sallyport sandbox", Version: process.Version},
		&mcp.ServerOptions{
			Instructions: instructions(set),
			// Without this the SDK declares logging. Tools never change.
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
			SetCacheable: private,
		})
	tools.Register(s.mcp)
	s.mcp.AddReceivingMiddleware(s.capture, s.recovering, s.identified, s.filtering, s.calling)
	go s.keepHouse()
	return s
}

// private keeps caches from giving one principal's answer to another: what the
// lists show depends on the token.
func private(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.CacheScope = "private" }

// keepHouse ends idle sessions, and gives memory back after a minute without a
// request: garbage is collected rarely while there is work (process.TuneMemory),
// and what lies around is memory that commands cannot have.
func (s *Server) keepHouse() {
	tick := time.NewTicker(time.Minute)
	defer tick.Stop()
	for seen, freed := int64(0), int64(0); ; {
		select {
		case <-s.ended.Done():
			return
		case <-tick.C:
		}
		s.sessions.EndIdle(idle.Idle)
		now := s.requests.Load()
		if now == seen && now != freed {
			debug.FreeOSMemory()
			freed = now
		}
		seen = now
	}
}

// Close ends every call, then every stream and session. Calls get some seconds
// to deliver a result that says why they ended.
func (s *Server) Close() {
	s.stop()
	for deadline := time.Now().Add(5 * time.Second); s.running.Load() > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // the last result is on its way
	s.end()
	for deadline := time.Now().Add(time.Second); s.sessions.Busy() && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond) // streams say why they end
	}
	s.sessions.EndAll()
}
