package replay

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every client passes where nothing is wrong, and gives back what it got.
func TestEveryClientPasses(t *testing.T) {
	if len(Clients()) != 6 {
		t.Fatalf("clients: %v", Clients())
	}
	for _, client := range Clients() {
		w := newWorld(t)
		done := map[string]bool{}
		for _, r := range w.replay(t, client, w.agree) {
			if r.Verdict == "fail" || r.Verdict == "warn" && r.Stumble != "not-public" || r.Verdict == "skipped" {
				t.Errorf("%s: %+v", client, r)
			}
			if strings.Contains(r.Text, "code-0") || strings.Contains(r.Text, "r0") || strings.Contains(r.Text,
				"a.ey") {
				t.Errorf("%s shows a secret: %s", client, r.Text)
			}
			done[r.Step] = true
		}
		for _, step := range []string{"challenge", "resource", "server", "register", "authorize", "token", "calls",
			"refresh", "revoke"} {
			if !done[step] {
				t.Errorf("%s: %s was not tried", client, step)
			}
		}
		if w.verified != 1 || w.revoked != 1 {
			t.Errorf("%s: %d exchanges, %d revocations", client, w.verified, w.revoked)
		}
	}
}

// Each stumble is found, and nothing is tried after a failure.
func TestEachStumbleIsFound(t *testing.T) {
	found := map[string]bool{}
	for _, row := range spoiled {
		w := newWorld(t)
		if row.spoil != nil {
			row.spoil(w)
		}
		consent := w.agree
		if row.consent != nil {
			consent = row.consent(w)
		}
		results := w.replay(t, row.client, consent)
		i := slices.IndexFunc(results, func(r Result) bool { return r.Stumble == row.want })
		if i < 0 {
			t.Errorf("%s as %s: %+v", row.want, row.client, results)
			continue
		}
		found[row.want] = true
		if r := results[i]; r.Cause == "" || r.Fix == "" || r.Source == "" || r.Text == "" {
			t.Errorf("%s: %+v", row.want, r)
		}
		for _, r := range results[i+1:] {
			if results[i].Verdict == "fail" && r.Step != "revoke" {
				t.Errorf("%s: went on with %s", row.want, r.Step)
			}
		}
	}
	for name := range Stumbles {
		if !found[name] {
			t.Errorf("%s is not provoked by any test", name)
		}
	}
}

// Nobody opened the link: what could not be tried is said, and is no failure.
func TestWithoutConsent(t *testing.T) {
	w := newWorld(t)
	results := w.replay(t, "gemini", func(context.Context, string, string) (string, error) { return "", nil })
	if last := results[len(results)-1]; last.Verdict != "skipped" || !strings.Contains(last.Text, "not tried") {
		t.Errorf("%+v", last)
	}
}

// Where only the client's own key helps, that is said.
func TestChatGPTAlone(t *testing.T) {
	w := newWorld(t)
	w.edit[serverAt] = set("registration_endpoint", nil)
	results := w.replay(t, "chatgpt", w.agree)
	if last := results[len(results)-1]; last.Verdict != "skipped" || last.Step != "register" {
		t.Errorf("%+v", last)
	}
}

// Each step says where it is known from.
func TestSequencesHaveSources(t *testing.T) {
	recorded := 0
	for _, client := range Clients() {
		seq, err := Load(client)
		if err != nil || seq.Client != client || len(seq.Redirects) == 0 {
			t.Errorf("%s: %v %+v", client, err, seq)
			continue
		}
		for _, s := range seq.Steps {
			if !s.Reconstructed {
				recorded++
			}
		}
	}
	if recorded == 0 {
		t.Error("no step is a recording")
	}
	if _, err := parse([]byte(`{"client":"x","steps":[{"do":"dance","source":"x"}]}`)); err == nil {
		t.Error("an unknown step is accepted")
	}
	if _, err := parse([]byte(`{"client":"x","steps":[{"do":"calls"}]}`)); err == nil {
		t.Error("a step without source is accepted")
	}
}

// The command serves the redirect URI itself where it is on this machine, and
// takes a pasted address where it is not.
func TestCommand(t *testing.T) {
	w := newWorld(t)
	u, _ := url.Parse(w.URL + mcpPath)
	for _, client := range []string{"claude-code", "chatgpt"} {
		in, paste := io.Pipe()
		out := &typed{see: func(text string) {
			link, ok := strings.CutPrefix(strings.TrimSpace(text), "")
			for line := range strings.Lines(link) {
				if line = strings.TrimSpace(line); ok && strings.HasPrefix(line, w.URL+"/as/authorize?") {
					go func() {
						asked, _ := url.Parse(line)
						back, _ := w.agree(t.Context(), line, asked.Query().Get("redirect_uri"))
						if client == "chatgpt" {
							io.WriteString(paste, back+"\n")
							return
						}
						back = strings.Replace(back, "localhost", "127.0.0.1", 1)
						if resp, err := http.Get(back); err == nil {
							resp.Body.Close()
						}
					}()
				}
			}
		}}
		code, err := Command{Client: client, URL: u, In: in, Out: out, Wait: time.Minute,
			HTTP: &http.Client{Timeout: time.Minute}}.Run(t.Context())
		if err != nil || code != 0 || !strings.Contains(out.String(), "2 tools") && !strings.Contains(out.String(),
			"1 tools") {
			t.Errorf("%s: %d %v\n%s", client, code, err, out.String())
		}
		for _, secret := range []string{"code-0&", "code-1&", "r0", "a.ey"} {
			if strings.Contains(out.String(), secret) {
				t.Errorf("%s: %q is shown:\n%s", client, secret, out.String())
			}
		}
	}
}

// typed collects what is printed and shows it to see.
type typed struct {
	mu  sync.Mutex
	all strings.Builder
	see func(string)
}

func (o *typed) Write(p []byte) (int, error) {
	o.mu.Lock()
	o.all.Write(p)
	o.mu.Unlock()
	o.see(string(p))
	return len(p), nil
}

func (o *typed) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.String()
}
