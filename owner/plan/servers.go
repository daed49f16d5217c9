package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// serversPlan says what the hub's servers may do beside what the stack allows. A compromised hub
// can start, stop and talk to exactly these, and become each stdio one.
func serversPlan(raw []byte, stack Plan) (Plan, error) {
	config, err := mcpjson.Parse(raw)
	if err != nil {
		return nil, err
	}
	var plan Plan
	for _, name := range slices.Sorted(maps.Keys(config.Broken)) {
		return nil, fmt.Errorf("the entry %s is broken: %w", name, config.Broken[name])
	}
	for name, e := range config.Servers {
		grants, err := entryPlan(e)
		if err != nil {
			return nil, fmt.Errorf("the entry %s: %w", name, err)
		}
		for _, what := range grants {
			plan = append(plan, Grant{Part: "server " + name, What: what})
		}
		more, err := swaps(name, e, stack)
		if err != nil {
			return nil, fmt.Errorf("the entry %s: %w", name, err)
		}
		plan = append(plan, more...)
	}
	return plan, nil
}

func entryPlan(e *mcpjson.Entry) ([]string, error) {
	var can []string
	for key := range e.Env {
		can = append(can, "see the value of "+key)
	}
	for key := range e.Headers {
		can = append(can, "be sent the header "+key)
	}
	switch e.Type {
	case mcpjson.Docker:
		body, err := derived(e)
		return append(can, body...), err
	case mcpjson.Unix:
		can = append(can, "be spoken to at "+e.Socket)
	case mcpjson.TCP:
		can = append(can, fmt.Sprintf("be spoken to at %s port %d", e.Host, e.Port))
	case mcpjson.Stdio:
		command, err := json.Marshal(append([]string{e.Command}, e.Args...))
		if err != nil {
			return nil, err
		}
		can = append(can, "run in the hub's jail: "+string(command))
	default:
		where := e.URL
		if u, err := url.Parse(e.URL); err == nil && u.Host != "" {
			where = u.Scheme + "://" + u.Host + u.Path // a query may hold a key
		}
		can = append(can, "be called at "+where)
	}
	return can, nil
}

// derived compares the container that the policy proxy would create with the
// one of an entry that asks for nothing, and lists what differs. What the image
// itself adds (its user, its environment) only the daemon knows.
func derived(e *mcpjson.Entry) ([]string, error) {
	bare, err := mcpjson.Parse([]byte(`{"mcpServers":{"bare":{"type":"docker","image":"bare"}}}`))
	if err != nil || bare.Servers["bare"] == nil {
		return nil, fmt.Errorf("the entry to compare with cannot be made: %v %v", err, bare)
	}
	flat := func(e *mcpjson.Entry) (map[string]string, error) {
		env := map[string]string{}
		for key := range e.Env {
			env[key] = "(value)"
		}
		body, err := container.Derive(e, container.Image{ID: e.Container.Image}, container.DefaultInstance, env, nil)
		if err != nil {
			return nil, err
		}
		out := map[string]string{}
		flatten(out, "", body)
		return out, nil
	}
	want, err := flat(e)
	if err != nil {
		return nil, err
	}
	base, err := flat(bare.Servers["bare"])
	if err != nil {
		return nil, err
	}
	var can []string
	for path, value := range want {
		if base[path] != value && !strings.HasPrefix(path, "Labels") && !strings.HasPrefix(path, "Env") {
			can = append(can, "have a container with "+path+" = "+value)
		}
	}
	if e.Container.SecretsFrom != "" {
		can = append(can, "see the secrets of the set "+e.Container.SecretsFrom)
	}
	return can, nil
}

func flatten(out map[string]string, path string, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		out[path] = err.Error()
		return
	}
	var object map[string]json.RawMessage
	if json.Unmarshal(raw, &object) != nil || len(object) == 0 {
		out[path] = string(raw)
		return
	}
	for key, value := range object {
		flatten(out, strings.TrimPrefix(path+"."+key, "."), value)
	}
}
