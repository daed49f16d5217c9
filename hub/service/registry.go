package service

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
	"github.com/sallyport-dev/sallyport/internal/procfs"
	"github.com/sallyport-dev/sallyport/internal/session"
)

// pollEvery is how often mcp.json is compared with what is in force. Reading it
// also sees what no watch on the file sees: an edit by rename, a new mount.
const pollEvery = time.Second

// maxConnections is what one server may have at once. Many clients never end
// their sessions, so the one idle longest is evicted for whoever comes.
const maxConnections = 256

// pidsReserve is what the jail keeps back of a container's limit.
const pidsReserve = 48

// newRoom is the room for the processes of all stdio servers.
func newRoom(most int) *lifecycle.Room {
	if limit, contained := procfs.PidsLimit(); contained && limit > 0 {
		most = min(most, limit-pidsReserve)
	}
	return &lifecycle.Room{Count: func() (int, int) {
		now, _, err := procfs.Tasks()
		if err != nil {
			return most, most // nothing is known, so nothing is given
		}
		return now, most
	}}
}

// registry are the servers in force.
type registry struct {
	room    *lifecycle.Room
	mu      sync.Mutex
	servers map[string]*lifecycle.Server
	hashes  map[string]string
	broken  map[string]error
	good    bool     // an mcp.json was in force
	fault   error    // why the newest mcp.json is not in force
	read    [32]byte // hash of the file that was last looked at
}

// start reads mcp.json for the first time and keeps watching it.
func (h *Hub) start() error {
	h.servers, h.hashes, h.broken = map[string]*lifecycle.Server{}, map[string]string{}, map[string]error{}
	h.reload()
	if h.fault != nil {
		return fmt.Errorf("MCP_SERVERS_FILE: %w (docs/mcp-json.md describes the file)", h.fault)
	}
	go func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for {
			select {
			case <-h.ended.Done():
				return
			case <-tick.C:
				h.reload()
				h.sessions.EndIdle(session.Idle)
			}
		}
	}()
	return nil
}

// reload puts an edited mcp.json into force. One that cannot be read leaves
// everything as it is.
func (h *Hub) reload() {
	data, err := os.ReadFile(h.set.ServersFile)
	h.mu.Lock()
	defer h.mu.Unlock()
	sum := sha256.Sum256(data)
	if h.stopping.Err() != nil || err == nil && h.fault == nil && sum == h.read {
		return // nothing begins beside the end
	}
	var config *mcpjson.Config
	if err == nil {
		h.read = sum
		config, err = mcpjson.Parse(data)
	}
	if err != nil {
		if h.good && (h.fault == nil || h.fault.Error() != err.Error()) {
			h.log.Error("mcp.json is not usable, the last good one stays in force", "error", err)
		}
		h.fault = err
		return
	}
	h.fault, h.good = nil, true
	h.apply(config)
}

// apply starts, replaces and removes what differs. Needs mu.
func (h *Hub) apply(config *mcpjson.Config) {
	h.broken = maps.Clone(config.Broken)
	for name, s := range h.servers {
		if e := config.Servers[name]; e == nil || e.Hash != h.hashes[name] {
			delete(h.servers, name)
			h.log.Info("removed or edited", "server", name)
			go func() {
				s.Close()
				h.front.Sweep()
			}()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(config.Servers)) {
		if h.servers[name] != nil {
			continue
		}
		s, err := h.build(config.Servers[name])
		if err != nil {
			h.broken[name] = err
			continue
		}
		h.servers[name], h.hashes[name] = s, config.Servers[name].Hash
	}
	for name, err := range h.broken {
		h.log.Error("disabled", "server", name, "error", err)
	}
	h.log.Info("mcp.json in force", "servers", len(h.servers), "disabled", len(h.broken))
}

// build makes a sleeping server of an entry.
func (h *Hub) build(entry *mcpjson.Entry) (*lifecycle.Server, error) {
	e, err := entry.Expand(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	c := lifecycle.Config{Name: e.Name, Type: e.Type, Hash: e.Hash, Most: maxConnections, Hidden: !e.Hub,
		KeepAlive: e.KeepAlive,
		Idle:      time.Duration(h.set.IdleMinutes) * time.Minute, CallTimeout: h.set.CallTimeout,
		Store: h.store, Desk: h.desk, Log: h.log.With("server", e.Name)}
	if e.IdleMinutes > 0 {
		c.Idle = time.Duration(e.IdleMinutes * float64(time.Minute))
	}
	if e.TimeoutMS > 0 {
		c.CallTimeout = time.Duration(e.TimeoutMS) * time.Millisecond
	}
	c.Shared = e.Shared
	if c.Image = e.Container.Image; c.Image != "" {
		c.Container = "mcp-sandbox-" + e.Name
	}
	remote := upstream.Remote{URL: e.URL, Header: e.Headers}
	switch e.Type {
	case mcpjson.Stdio:
		c.Room = h.room
		c.Dial, c.Release, err = h.child(e)
	case mcpjson.Unix:
		c.Dial = upstream.Unix(e.Socket)
	case mcpjson.TCP:
		c.Dial = upstream.TCP(e.Host, e.Port)
	case mcpjson.HTTP:
		c.Dial = upstream.HTTP(remote)
	case mcpjson.SSE:
		c.Dial = upstream.SSE(remote)
	case mcpjson.Docker:
		c.Shared = true
		c.Dial = upstream.Docker(upstream.Container{Socket: h.set.ProxySocket, Server: e.Name, Hash: e.Hash, Env: e.Env,
			Log: h.stderr(e.Name)})
	}
	if err != nil && len(e.Warnings) > 0 {
		err = fmt.Errorf("%w (%s)", err, strings.Join(e.Warnings, "; "))
	}
	if err != nil {
		return nil, err
	}
	if c.Warnings = e.Warnings; len(c.Warnings) > 0 {
		c.Log.Warn("entry", "warnings", c.Warnings)
	}
	return lifecycle.New(c), nil
}

// Visible implements aggregate.Catalog.
func (h *Hub) Visible(id identity.Identity) []*lifecycle.Server {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*lifecycle.Server
	for _, name := range slices.Sorted(maps.Keys(h.servers)) {
		if s := h.servers[name]; id.Reaches(name) && !s.Hidden() {
			list = append(list, s)
		}
	}
	return list
}

// Disabled implements aggregate.Catalog.
func (h *Hub) Disabled(id identity.Identity) map[string]error {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := map[string]error{}
	for name, err := range h.broken {
		if id.Reaches(name) {
			list[name] = err
		}
	}
	return list
}

// stderr logs what a server writes there.
func (h *Hub) stderr(name string) func(string) {
	return func(line string) { h.log.Info("[" + name + "] " + line) }
}

func (r *registry) close() {
	r.mu.Lock()
	all := slices.Collect(maps.Values(r.servers))
	r.mu.Unlock()
	var wait sync.WaitGroup
	for _, s := range all {
		wait.Go(s.Stop)
	}
	wait.Wait()
}
