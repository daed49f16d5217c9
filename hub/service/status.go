package service

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/internal/identity"
)

// statusEvery is how old the status may be that is served: whoever asks without a
// pause makes the hub look five times a second, not each time.
const statusEvery = 200 * time.Millisecond

// board is the status of all servers as it last was.
type board struct {
	mu      sync.Mutex
	at      time.Time
	looks   int // how often the servers were looked at
	servers map[string]lifecycle.Status
	config  string
}

// status answers GET <base>/status: each server that the principal may call.
func (h *Hub) status(w http.ResponseWriter, r *http.Request) {
	id, _ := identity.From(r.Context())
	out := struct {
		Servers map[string]lifecycle.Status `json:"servers"`
		Config  string                      `json:"config"`
	}{Servers: map[string]lifecycle.Status{}}
	var all map[string]lifecycle.Status
	all, out.Config = h.look()
	for name, status := range all {
		if id.Reaches(name) {
			out.Servers[name] = status
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(out)
}

// look is the status of all servers, at most statusEvery old. The caller must not
// change it.
func (h *Hub) look() (servers map[string]lifecycle.Status, config string) {
	b := &h.board
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.at) < statusEvery {
		return b.servers, b.config
	}
	b.looks++
	b.at, b.config, b.servers = time.Now(), "in force", map[string]lifecycle.Status{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fault != nil {
		b.config = "the last good one is in force: " + h.fault.Error()
	}
	for name, s := range h.servers {
		b.servers[name] = s.Status()
	}
	for name, err := range h.broken {
		b.servers[name] = lifecycle.Status{State: "disabled", Reason: err.Error()}
	}
	return b.servers, b.config
}
