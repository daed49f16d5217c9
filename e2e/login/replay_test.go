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

// walk replays a client's steps, with one of its redirect URIs; the owner agrees to
// them. edit may change the steps.
func walk(t *testing.T, s *stand, client, at, redirect string, edit func(*replay.Walk, *replay.Step)) []replay.Result {
	t.Helper()
	seq, err := replay.Load(client)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	w := &replay.Walk{URL: u, HTTP: insecure(), Consent: func(_ context.Context, link, _ string) (string, error) {
		return s.agree(t, link, "read_file").String(), nil
	}}
	seq.Redirects = append([]string{redirect}, slices.DeleteFunc(seq.Redirects, func(r string) bool { return r == redirect })...)
	seq.Redirects[0] = strings.Replace(redirect, "{port}", "43210", 1)
	for i := range seq.Steps {
		edit(w, &seq.Steps[i])
	}
	return w.Run(t.Context(), seq)
}

// registers lets a client register instead of naming its metadata document, which login
// would fetch from the Internet: TestClientsDocuments has one.
func registers(_ *replay.Walk, step *replay.Step) { step.Document = "" }

// passed fails the test for a stumble and for a step that was not tried.
func passed(t *testing.T, results []replay.Result) {
	t.Helper()
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
}

// Each client's own steps pass through Traefik, the plugin and login, with each of its
// redirect URIs (Cursor's own scheme too): discovery in its order, registration twice in
// two seconds, scopes that nobody listed, first calls, the same refresh token from two
// connections at once and again after a lost answer.
func TestClientsSteps(t *testing.T) {
	s := newStand(t, nil)
	for _, client := range replay.Clients() {
		seq, err := replay.Load(client)
		if err != nil {
			t.Fatal(err)
		}
		for _, redirect := range seq.Redirects {
			t.Run(client+" "+redirect, func(t *testing.T) {
				passed(t, walk(t, s, client, s.sandbox, redirect, registers))
			})
		}
	}
	// The twin: where header clients belong, each client is told that no login begins.
	for _, client := range replay.Clients() {
		results := walk(t, s, client, s.origin+"/mcp-sandbox/mcp", "http://localhost:1/callback", registers)
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
