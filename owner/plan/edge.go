package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// settings are those of the plugin's that grant something.
type settings struct {
	PathPrefix, BackendAuth string
	Tokens                  []holder
	OAuth                   *holder
}

type holder struct {
	Name, Issuer string
	Value        any
	Tools        []string
	Egress       []string
}

// evaluated runs the Go templates of a dynamic configuration as Traefik does, with the
// environment that the rendered compose file gives to Traefik. Of Traefik's functions
// only env is known.
func evaluated(file, compose []byte) ([]byte, error) {
	var stack struct {
		Services struct {
			Traefik struct{ Environment map[string]*string }
		}
	}
	if err := json.Unmarshal(compose, &stack); err != nil {
		return nil, err
	}
	env := func(name string) string {
		if v := stack.Services.Traefik.Environment[name]; v != nil {
			return *v
		}
		return ""
	}
	t, err := template.New("dynamic").Funcs(template.FuncMap{"env": env}).Parse(string(file))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = t.Execute(&out, nil)
	return out.Bytes(), err
}

// edgePlan lists what each token of Traefik's dynamic configuration may call.
func edgePlan(raw []byte) (Plan, error) {
	var file struct {
		HTTP struct {
			Middlewares map[string]struct{ Plugin map[string]settings }
		}
	}
	if err := decodeYAML(raw, &file); err != nil {
		return nil, err
	}
	var plan Plan
	for name, m := range file.HTTP.Middlewares {
		for _, s := range m.Plugin {
			if s.PathPrefix == "" {
				continue // another plugin
			}
			where := fmt.Sprintf("%s (%s)", s.PathPrefix, name)
			if s.BackendAuth == "none" {
				plan = append(plan, Grant{Part: "edge", What: "speak to the backend of " + where + " without a token"})
			}
			for _, h := range s.Tokens {
				plan = append(plan, h.grants("token "+h.Name, where)...)
			}
			if s.OAuth != nil {
				plan = append(plan, s.OAuth.grants("login at "+s.OAuth.Issuer, where)...)
			}
		}
	}
	if len(plan) == 0 {
		return nil, errors.New("no middleware with the plugin and no token found: is this the file that Traefik reads?")
	}
	return plan, nil
}

// backends are the names under which the requests of each middleware find their backend:
// the hosts of the services that its routers lead to.
func backends(raw []byte) map[string]string {
	var file struct {
		HTTP struct {
			Routers map[string]struct {
				Middlewares []string
				Service     string
			}
			Services map[string]struct {
				LoadBalancer struct{ Servers []struct{ URL string } }
			}
		}
	}
	to := map[string]string{}
	if decodeYAML(raw, &file) != nil {
		return to
	}
	for _, r := range file.HTTP.Routers {
		for _, server := range file.HTTP.Services[r.Service].LoadBalancer.Servers {
			if u, err := url.Parse(server.URL); err == nil {
				for _, name := range r.Middlewares {
					to[strings.TrimSuffix(name, "@file")] = u.Hostname()
				}
			}
		}
	}
	return to
}

func (h holder) grants(part, where string) (plan Plan) {
	for _, rule := range h.Egress {
		plan = append(plan, Grant{Part: part, What: fmt.Sprintf("let commands connect to %s at %s", rule, where)})
	}
	for _, tool := range h.Tools {
		plan = append(plan, Grant{Part: part, What: fmt.Sprintf("call %s at %s", tool, where)})
	}
	if h.Value != nil {
		plan = append(plan, Grant{Part: part, What: "be read in Traefik's API and debug log at " + where})
	}
	return plan
}

// decodeYAML goes by way of JSON, whose decoder does not mind the case of keys,
// as Traefik does not.
func decodeYAML(raw []byte, into any) error {
	var tree, more any
	file := yaml.NewDecoder(bytes.NewReader(raw))
	if err := file.Decode(&tree); err != nil {
		return err
	}
	if err := file.Decode(&more); err != io.EOF {
		return errors.New("more than one document, of which Traefik reads the first")
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}
