package service

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/hub/lifecycle"
	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

// variable is how mcp.json names a value of the hub's environment.
var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)`)

// secrets are what records must not hold: the hub's token, and the values of
// the environment that mcp.json names at the start.
func (s *Settings) secrets() []string {
	list := []string{s.Token}
	raw, _ := os.ReadFile(s.ServersFile) // a start without it fails later, with a message
	for _, m := range variable.FindAllSubmatch(raw, -1) {
		list = append(list, os.Getenv(string(m[1])))
	}
	return list
}

// serveOwner adds the hub's own operations to the owner's socket and serves it.
func (h *Hub) serveOwner() error {
	h.office.Handle(ownersock.OpServers, func(ownersock.Request) (any, error) { return h.list(), nil })
	h.office.Handle(ownersock.OpWithheld, func(r ownersock.Request) (any, error) {
		list, sum, err := pins.Accept(h.set.StateDir, r.Name, "")
		shown := ownersock.Withheld{Server: r.Name, Sum: sum, Changes: []ownersock.Change{}}
		for _, c := range list {
			shown.Changes = append(shown.Changes, ownersock.Change(c))
		}
		return shown, err
	})
	h.office.Handle(ownersock.OpAccept, func(r ownersock.Request) (any, error) { return nil, h.accept(r.Name, r.Sum) })
	return h.office.Start()
}

func (h *Hub) list() []ownersock.Upstream {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := []ownersock.Upstream{}
	add := func(name string, s lifecycle.Status) {
		list = append(list, ownersock.Upstream{Name: name, Type: s.Type, State: s.State, Reason: s.Reason,
			Connections: s.Connections, Withheld: append([]string{}, s.Withheld...)})
	}
	for name, s := range h.servers {
		add(name, s.Status())
	}
	for name, err := range h.broken {
		add(name, lifecycle.Status{State: "disabled", Reason: err.Error()})
	}
	slices.SortFunc(list, func(a, b ownersock.Upstream) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// accept takes exactly the definitions that sum stands for, and records it.
func (h *Hub) accept(server, sum string) error {
	list, now, err := pins.Accept(h.set.StateDir, server, sum)
	if err != nil {
		return err
	}
	if len(list) == 0 || now != sum {
		return errors.New("nothing was accepted: this is not what is withheld now; look again")
	}
	tools := []string{}
	for _, c := range list {
		tools = append(tools, c.Tool)
	}
	names, _ := json.Marshal(tools)
	return h.desk.Audit().Event("accepted", audit.Call{Server: server},
		map[string]string{"tools": string(names), "sum": sum}, true)
}
