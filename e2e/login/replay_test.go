package login_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/owner/doctor/replay"
)

// walk replays a client's steps; the owner agrees to them. The client registers
// instead of naming its metadata document, which login would fetch from the Internet.
func walk(t *testing.T, s *stand, client, at string) []replay.Result {
	t.Helper()
	seq, err := replay.Load(client)
	if err != nil {
		t.Fatal(err)
	}
	seq.Redirects[0] = strings.Replace(seq.Redirects[0], "{port}", "43210", 1)
	for i := range seq.Steps {
		seq.Steps[i].Document = ""
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	w := &replay.Walk{URL: u, HTTP: insecure(), Consent: func(_ context.Context, link, _ string) (string, error) {
		return s.agree(t, link, "read_file").String(), nil
	}}
	return w.Run(t.Context(), seq)
}

// Each client's own steps pass through Traefik, the plugin and login: registration
// twice, redirect URIs of three kinds, the same refresh token twice, first calls.
func TestClientsSteps(t *testing.T) {
	s := newStand(t, nil)
	for _, client := range replay.Clients() {
		t.Run(client, func(t *testing.T) {
			results := walk(t, s, client, s.sandbox)
			var done []string
			for _, r := range results {
				done = append(done, r.Step)
				if r.Verdict != "ok" && r.Stumble != "not-public" {
					t.Errorf("%s: %s: %s %s", r.Step, r.Verdict, r.Stumble, r.Text)
				}
			}
			for _, step := range []string{"challenge", "resource", "server", "register", "authorize", "token", "calls", "refresh", "revoke"} {
				if !slices.Contains(done, step) {
					t.Errorf("%s was not tried: %v", step, done)
				}
			}
		})
	}
	// The twin: where header clients belong, each client is told that no login begins.
	for _, client := range replay.Clients() {
		results := walk(t, s, client, s.origin+"/mcp-sandbox/mcp")
		if last := results[len(results)-1]; last.Stumble != "no-metadata-link" || last.Verdict != "fail" {
			t.Errorf("%s: %+v", client, last)
		}
	}
}

// The command itself: the owner opens the link, and the browser comes back to where
// the command listens.
func TestDoctorAs(t *testing.T) {
	s := newStand(t, nil)
	cmd := exec.Command(rig.Binary(t, "sallyport"), "doctor", "-as", "gemini", "-wait", "30s", s.sandbox)
	out, err := cmd.StdoutPipe()
	if err == nil {
		_, err = cmd.StdinPipe() // open, and silent
	}
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for lines := bufio.NewScanner(io.TeeReader(out, &all)); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, s.issuer+"/authorize?") {
			send(t, insecure(), "GET", s.agree(t, line, "read_file").String(), "")
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(all.String(), "1 tools") || strings.Contains(all.String(), "eyJ") {
		t.Errorf("%v\n%s", err, all.String())
	}
	raw, err := exec.Command(rig.Binary(t, "sallyport"), "doctor", "-as", "claude", "-json", s.origin+"/mcp-sandbox/mcp").Output()
	var results []replay.Result
	if json.Unmarshal(raw, &results) != nil || len(results) == 0 || results[len(results)-1].Stumble != "no-metadata-link" || err == nil {
		t.Errorf("%v %s", err, raw)
	}
}
