package plan

import (
	"errors"
	"fmt"

	"github.com/sallyport-dev/sallyport/sandboxd/yaml"
)

// edgePlan lists what each token of Traefik's dynamic configuration may call.
func edgePlan(raw []byte) (Plan, error) {
	tree, err := yaml.Parse(raw)
	if err != nil {
		return nil, err
	}
	var plan Plan
	for name, m := range object(at(tree, "http", "middlewares")) {
		for _, settings := range object(at(m, "plugin")) {
			if at(settings, "pathPrefix") == nil {
				continue // another plugin
			}
			where := fmt.Sprintf("%s (%v)", at(settings, "pathPrefix"), name)
			if at(settings, "backendAuth") == "none" {
				plan = append(plan, Grant{Part: "edge", What: "speak to the backend of " + where + " without a token"})
			}
			tokens, _ := at(settings, "tokens").([]any)
			for _, t := range tokens {
				plan = append(plan, grants(fmt.Sprintf("token %v", at(t, "name")), where, t)...)
			}
			if o := at(settings, "oauth"); o != nil {
				plan = append(plan, grants(fmt.Sprintf("login at %v", at(o, "issuer")), where, o)...)
			}
		}
	}
	if len(plan) == 0 {
		return nil, errors.New("no middleware with the plugin and no token found: is this the file that Traefik reads?")
	}
	return plan, nil
}

func grants(part, where string, holder any) (plan Plan) {
	tools, _ := at(holder, "tools").([]any)
	for _, tool := range tools {
		plan = append(plan, Grant{Part: part, What: fmt.Sprintf("call %v at %s", tool, where)})
	}
	if at(holder, "value") != nil {
		plan = append(plan, Grant{Part: part, What: "be read in Traefik's API and debug log at " + where})
	}
	return plan
}

func object(v any) map[string]any { m, _ := v.(map[string]any); return m }

func at(v any, path ...string) any {
	for _, key := range path {
		v = object(v)[key]
	}
	return v
}
