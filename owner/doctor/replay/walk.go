package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/terminal"
)

// Result is what came of one step.
type Result struct {
	Step          string `json:"step"`
	Verdict       string `json:"verdict"` // ok, warn, fail or skipped
	Text          string `json:"text"`    // what was asked and answered; no token, no code
	Stumble       string `json:"stumble,omitempty"`
	Cause         string `json:"cause,omitempty"`
	Fix           string `json:"fix,omitempty"`
	Source        string `json:"source"`
	Reconstructed bool   `json:"reconstructed"`
}

// Walk is one replay.
type Walk struct {
	URL  *url.URL     // as the owner types it into the client
	HTTP *http.Client // must follow no redirect
	// Consent has the link opened and returns the address that the browser was sent
	// to; an empty one means that nobody opened it.
	Consent func(ctx context.Context, link, redirect string) (string, error)
	Say     func(Result) // called for each result, as it comes; nil: not at all
	// Sign makes a JWT with the key of the client's metadata document, which only the
	// client itself has, and a test that plays it; nil: the walk registers instead.
	Sign func(claims map[string]any) (string, error)

	seq      *Sequence
	step     Step
	results  []Result
	stopped  bool
	secrets  []string // never shown
	redirect string

	challenge string // WWW-Authenticate
	resource  struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported"`
	}
	server   server
	client   string // client_id
	signs    bool   // it proves itself with Sign
	verifier string
	code     string
	token    tokens
}

// actions are the steps by name. Each reports once, unless it stops the walk.
var actions = map[string]func(*Walk, context.Context){
	"challenge": (*Walk).challenged, "resource": (*Walk).resourceMetadata, "server": (*Walk).serverMetadata,
	"register": (*Walk).register, "authorize": (*Walk).authorize, "token": (*Walk).exchange,
	"calls": (*Walk).calls, "refresh": (*Walk).refresh,
}

// Run walks the sequence and returns its results. It stops at the first failure.
func (w *Walk) Run(ctx context.Context, seq *Sequence) []Result {
	w.seq, w.redirect = seq, seq.Redirects[0]
	for _, step := range seq.Steps {
		w.step = step
		actions[step.Do](w, ctx)
		if w.stopped {
			break
		}
	}
	w.revoke(ctx)
	return w.results
}

func (w *Walk) ok(format string, args ...any) {
	w.add(Result{Verdict: "ok", Text: fmt.Sprintf(format, args...)})
}

// skip ends the walk without a failure.
func (w *Walk) skip(format string, args ...any) {
	w.add(Result{Verdict: "skipped", Text: fmt.Sprintf(format, args...)})
	w.stopped = true
}

// stumble reports one of Stumbles, and stops the walk where it is a failure.
func (w *Walk) stumble(name, format string, args ...any) {
	s := Stumbles[name]
	w.add(Result{Verdict: s.Verdict, Text: fmt.Sprintf(format, args...), Stumble: name, Cause: s.Cause, Fix: s.Fix})
	w.stopped = w.stopped || s.Verdict == "fail"
}

func (w *Walk) add(r Result) {
	r.Step, r.Source, r.Reconstructed = w.step.Do, w.step.Source, w.step.Reconstructed
	r.Text = terminal.Line(w.masked(r.Text), 400)
	w.results = append(w.results, r)
	if w.Say != nil {
		w.Say(r)
	}
}

// masked is a text without the secrets of the walk.
func (w *Walk) masked(text string) string {
	for _, secret := range w.secrets {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "(secret)")
		}
	}
	return text
}

// answer is what a server said.
type answer struct {
	status int
	header http.Header
	body   []byte
	what   string // the request, for reports
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 1 << 20

// send sends a request as the client does. On an error it stumbles.
func (w *Walk) send(ctx context.Context, method, to string, body []byte, header map[string]string) *answer {
	a, err := w.try(ctx, method, to, body, header)
	if err != nil {
		w.stumble("unreachable", "%s %s: %v", method, to, err)
		return nil
	}
	return a
}

// try sends a request. It may be called at the same time.
func (w *Walk) try(ctx context.Context, method, to string, body []byte, header map[string]string) (*answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", w.seq.Agent)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := w.HTTP.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil && len(read) == 0 {
		return nil, err
	}
	return &answer{resp.StatusCode, resp.Header, read, method + " " + to}, nil
}

// document reads an answer as one JSON object.
func (a *answer) document(into any) bool {
	return json.Unmarshal(a.body, into) == nil && bytes.TrimLeft(a.body, " \t\r\n")[0] == '{'
}

// short is the beginning of a body, for reports: cut after its secrets are out, so that
// no part of one is left.
func (w *Walk) short(a *answer) string {
	text := strings.TrimSpace(w.masked(string(a.body)))
	return text[:min(len(text), 120)]
}

// differs says where two texts part: a client that compares them stops there.
func differs(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return fmt.Sprintf("%q, not %q: they part at byte %d", got, want, i+1)
}
