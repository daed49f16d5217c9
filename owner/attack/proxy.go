package attack

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
)

// What only a Docker daemon would do. The policy proxy answers with its own
// refusal and nothing reaches the daemon.
var dockerCalls = []struct{ method, path, body string }{
	{"GET", "/containers/json?all=1", ""},
	{"GET", "/v1.41/info", ""},
	{"POST", "/containers/create?name=sallyport-attack",
		`{"Image":"x","HostConfig":{"Privileged":true,"Binds":["/:/host"]}}`},
	{"POST", "/v1.24/containers/create", `{"Image":"x","Binds":["/:/host"]}`},
	{"POST", "/containers/sallyport-attack/exec", `{"Cmd":["id"]}`},
	{"GET", "/%63ontainers/json", ""},
	{"POST", "/build", ""},
	{"GET", "/libpod/containers/json", ""},
}

// proxy asks the policy proxy for what it must refuse.
func (r *report) proxy(ctx context.Context) {
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", r.opt.proxy)
	}}}
	for _, c := range dockerCalls {
		name := "proxy: " + c.method + " " + c.path
		req, err := http.NewRequestWithContext(ctx, c.method, "http://proxy"+c.path, strings.NewReader(c.body))
		if err != nil {
			r.say(skipped, name, err.Error())
			continue
		}
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			r.say(skipped, name, err.Error())
			continue
		}
		text, _ := io.ReadAll(io.LimitReader(res.Body, 200))
		res.Body.Close()
		verdict := through
		if res.StatusCode == http.StatusForbidden || res.StatusCode == http.StatusNotFound ||
			res.StatusCode == http.StatusBadRequest {
			verdict = held
		}
		r.say(verdict, name, res.Status+" "+string(text))
	}
}
