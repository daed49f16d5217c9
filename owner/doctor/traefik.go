package doctor

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// traefik finds its version, and with -traefik-api the routers it dropped.
func (w *walk) traefik() {
	if w.opt.inside {
		return
	}
	if w.opt.api != "" {
		w.api()
		return
	}
	if w.base.Host == w.backend.Host {
		return // make run has no Traefik
	}
	for _, c := range w.inspect("label=org.opencontainers.image.title=Traefik") {
		if v := c.Config.Labels["org.opencontainers.image.version"]; v != "" {
			w.version(v, "image label of "+c.Name)
			return
		}
	}
	w.found("traefik", "traefik-unknown", "no -traefik-api and no container of Traefik's image here")
}

// version judges what Traefik calls itself. One that somebody built says "dev",
// from which nothing follows.
func (w *walk) version(v, source string) {
	switch {
	case !atLeast(v, 0, 0, 0):
		w.found("traefik", "traefik-unknown", "%q is no version (%s)", v, source)
	case !atLeast(v, 3, 7, 18):
		w.found("traefik", "traefik-old", "%s (%s)", v, source)
	default:
		w.ok("traefik", "%s (%s)", v, source)
	}
}

// api asks Traefik's API, which never gets a token.
func (w *walk) api() {
	root, err := url.Parse(strings.TrimSuffix(w.opt.api, "/"))
	if err != nil {
		w.found("traefik", "traefik-unknown", "-traefik-api is no URL")
		return
	}
	var version struct{ Version string }
	if err := w.fetch(root.JoinPath("/api/version"), &version); err != nil || version.Version == "" {
		w.found("traefik", "traefik-unknown", "GET %s/api/version: %v", root, err)
		return
	}
	w.version(version.Version, root.String())
	for _, kind := range []string{"routers", "middlewares"} {
		var all []struct {
			Name, Status string
			Error        []string
		}
		if err := w.fetch(root.JoinPath("/api/http/"+kind), &all); err != nil {
			w.unseen("routers", err.Error())
			return
		}
		for _, r := range all {
			if r.Status == "disabled" || len(r.Error) > 0 {
				w.found("routers", "traefik-router", "%s: %s", r.Name, strings.Join(r.Error, "; "))
				return
			}
		}
	}
	w.ok("routers", "none dropped")
}

func (w *walk) fetch(u *url.URL, into any) error {
	ctx, cancel := context.WithTimeout(w.ctx, w.opt.wait)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", u.String(), nil)
	if err != nil {
		return err
	}
	res, err := w.http.Do(req)
	if err != nil {
		return reason(err)
	}
	defer res.Body.Close()
	return json.NewDecoder(res.Body).Decode(into)
}

// serving is what "tailscale serve status --json" says (ipn.ServeConfig) that
// doctor reads.
type serving struct {
	AllowFunnel map[string]bool
	Web         map[string]struct {
		Handlers map[string]struct{ Proxy string }
	}
}

// funnel looks where this machine's Funnel leads.
func (w *walk) funnel() {
	if w.opt.inside {
		return
	}
	raw, err := w.output("tailscale", "serve", "status", "--json")
	var s serving
	if err != nil || json.Unmarshal(raw, &s) != nil || len(s.Web) == 0 {
		w.unseen("funnel", "tailscale serves nothing on this machine")
		return
	}
	for host, web := range s.Web {
		for path, h := range web.Handlers {
			to, err := url.Parse(h.Proxy)
			if err != nil || h.Proxy == "" {
				continue
			}
			direct := slices.Contains([]string{w.backend.Port(), "18081"}, to.Port()) && w.base.Host != w.backend.Host
			switch {
			case direct:
				w.found("funnel", "funnel-past-traefik", "%s%s leads to %s", host, path, h.Proxy)
			case path != "/" && strings.HasPrefix(w.base.Path+"/", strings.TrimSuffix(path, "/")+"/"):
				w.found("funnel", "funnel-set-path", "%s is mounted at %s", host, path)
			default:
				w.ok("funnel", "%s%s leads to %s", host, path, h.Proxy)
			}
		}
	}
}
