package plan

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// ownerPlan names what is wrong with the owner's sockets of the rendered compose
// file: grants of tokens that ask where nobody can answer, and sockets that
// another container or a command gets at. backends says where each middleware leads.
func ownerPlan(raw []byte, tokens Plan, backends map[string]string) (plan Plan, err error) {
	var file struct {
		Services map[string]service `json:"services"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("the rendered compose file: %w", err)
	}
	for _, g := range tokens {
		call, asks := strings.CutPrefix(g.What, "call ask:")
		tool, where, _ := strings.Cut(call, " at ")
		_, middleware, _ := strings.Cut(strings.TrimSuffix(where, ")"), " (")
		name := backends[middleware]
		if _, known := file.Services[name]; !known && (strings.Contains(tool, "/") || strings.Contains(where, "hub")) {
			name = "hub"
		} else if !known {
			name = "sandboxd"
		}
		if s, on := file.Services[name]; asks && on && s.setting("MCP_OWNER_SOCKET") == "" {
			plan = append(plan, Grant{Part: g.Part,
				What: fmt.Sprintf("ask for %s at %s, which nobody can answer: %s has no MCP_OWNER_SOCKET", tool, where,
					name)})
		}
	}
	for name, s := range file.Services {
		socket := s.setting("MCP_OWNER_SOCKET")
		if socket == "" {
			continue
		}
		if place := commandsWrite(name, socket); place != "" {
			plan = append(plan, Grant{Part: parts[name],
				What: fmt.Sprintf("have its owner's socket replaced by a command: %s lies in %s", socket, place)})
		}
		plan = append(plan, speakers(file.Services, name, socket)...)
	}
	return plan, nil
}

func (s service) setting(name string) string {
	if v := s.Environment[name]; v != nil {
		return *v
	}
	return ""
}

// commandsWrite is the place in sandboxd's container that commands may change
// and that holds socket, if there is one.
func commandsWrite(service, socket string) string {
	for _, place := range []string{"/workspace", "/private", "/tmp", "/dev/shm"} {
		if service == "sandboxd" && strings.HasPrefix(filepath.Clean(socket)+"/", place+"/") {
			return place
		}
	}
	return ""
}

// speakers are the mounts, beside the server's own, through which a container
// can connect to the socket; read-only or not, a socket is spoken to.
func speakers(all map[string]service, name, socket string) (plan Plan) {
	source, own := "", ""
	for _, v := range all[name].Volumes {
		if rest, ok := strings.CutPrefix(socket, v.Target+"/"); ok && v.Type == "bind" && len(v.Target) > len(own) {
			source, own = filepath.Join(v.Source, rest), v.Target
		}
	}
	for other, s := range all {
		for _, v := range s.Volumes {
			if own != "" && v.Type == "bind" && (other != name || v.Target != own) && Within(v.Source, source) {
				plan = append(plan, Grant{Part: partOf(other),
					What: fmt.Sprintf("connect to the owner's socket of %s, %s, by its mount of %s", name, source,
						v.Source)})
			}
		}
	}
	return plan
}
