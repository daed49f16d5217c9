package plan

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sallyport-dev/sallyport/dockerproxy/container"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
)

// crossings are the places where what one part may change is what another part
// or the owner runs, obeys or keeps secret: a command of the sandbox would then
// have the powers of both. There should be none.
func crossings(all []powers) (plan Plan) {
	for _, box := range all {
		if box.part != "sandbox" {
			continue
		}
		for _, w := range box.Volumes {
			if w.ReadOnly || w.Type != "bind" {
				continue
			}
			for _, other := range all {
				for _, v := range other.Volumes {
					same := other.part == box.part && v.Target == w.Target
					if v.Type == "bind" && !same &&
						(Within(w.Source, v.Source) || other.part != box.part && Within(v.Source, w.Source)) {
						plan = append(plan, Grant{Part: "sandbox",
							What: fmt.Sprintf("change or read %s, which %s mounts, by its own mount of %s", v.Source,
								other.part, w.Source)})
					}
				}
			}
			plan = append(plan, owned(w.Source)...)
		}
	}
	return plan
}

// owned reports a workspace that contains the checkout in which plan was
// started, or lies in it elsewhere than in the folder "workspace". What a server
// keeps for itself in .sallyport (records, its socket) is no workspace.
func owned(workspace string) Plan {
	here, err := os.Getwd()
	if err != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(here, "docker-compose.yml")); err != nil {
		return nil // not started in an installation
	}
	if Within(filepath.Join(here, ".sallyport"), workspace) &&
		filepath.Base(filepath.Dir(filepath.Dir(workspace))) == ".sallyport" {
		return nil
	}
	if Within(workspace, here) || Within(here, workspace) && !Within(filepath.Join(here, "workspace"), workspace) {
		return Plan{{Part: "sandbox", What: fmt.Sprintf("change what the owner runs in %s (Makefile, "+
			"docker-compose.yml, traefik-dynamic.yml): its mount is %s", here, workspace)}}
	}
	return nil
}

// Within reports whether path is dir or lies inside it, symbolic links followed
// where both exist.
func Within(dir, path string) bool {
	resolve := func(p string) string {
		if real, err := filepath.EvalSymlinks(p); err == nil {
			return real
		}
		return filepath.Clean(p)
	}
	dir, path = resolve(dir), resolve(path)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// swaps are the bind sources of docker servers that lie at, under or above what
// the sandbox may change: a command could put a link in their place, and the
// daemon would follow it.
func swaps(name string, e *mcpjson.Entry, plan Plan) (more Plan, err error) {
	if e.Type != mcpjson.Docker {
		return nil, nil
	}
	body, err := container.Derive(e, container.Image{ID: e.Container.Image}, container.DefaultInstance, nil, nil)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var create struct {
		HostConfig struct {
			Mounts []struct{ Type, Source string }
		}
	}
	if err := json.Unmarshal(raw, &create); err != nil {
		return nil, err
	}
	for _, m := range create.HostConfig.Mounts {
		for _, g := range plan {
			source, ok := strings.CutPrefix(g.What, "change ")
			source, _, bind := strings.Cut(source, " (bind, at ")
			if g.Part == "sandbox" && ok && bind && m.Type == "bind" &&
				(Within(source, m.Source) || Within(m.Source, source)) {
				more = append(more, Grant{Part: "sandbox",
					What: fmt.Sprintf("swap %s, which the container of server %s mounts, for a link to anything on "+
						"this host", m.Source, name)})
			}
		}
	}
	return more, nil
}
