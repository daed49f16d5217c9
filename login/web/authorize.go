package web

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

// request is an authorization request that was found good, as the consent page shows it.
type request struct {
	issue.Approval // what is known of it
	state          string
	resource       *settings.Resource
}

// authorize is RFC 6749, section 3.1. A stranger gets the sign-in page whatever they
// ask: no document is fetched for them, and no error sends them anywhere.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	session := s.owned(w, r, r.URL.RawQuery, "")
	if session == nil {
		return
	}
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || twice(q) != "" {
		s.fault(w, nil, "invalid_request", "the request is not readable, or has a parameter twice")
		return
	}
	c, err := s.client(r.Context(), q.Get("client_id"))
	if err != nil {
		s.fault(w, nil, "invalid_client", err.Error())
		return
	}
	a := &request{state: q.Get("state"), Approval: issue.Approval{Challenge: q.Get("code_challenge")}}
	a.Grant = store.Grant{Client: *c, Redirect: q.Get("redirect_uri"), Scope: issue.Scope(q.Get("scope"))}
	if a.Grant.Redirect == "" && len(c.Redirects) == 1 {
		a.Grant.Redirect = c.Redirects[0]
	}
	if !client.Matches(c, a.Grant.Redirect) {
		s.fault(w, nil, "invalid_request", fmt.Sprintf("%q is no redirect URI of this client", a.Grant.Redirect))
		return
	}
	a.resource, a.Grant.Resource = s.Config.Find(q.Get("resource"))
	if code, text := check(a, q); code != "" {
		s.fault(w, a, code, text)
		return
	}
	s.consentPage(w, http.StatusOK, session, session.Show(a, s.Now()), a, *a.resource.Ticked, "")
}

// check looks at the rest of a request whose redirect URI is the client's.
func check(a *request, q url.Values) (code, text string) {
	switch {
	case q.Has("request") || q.Has("request_uri"):
		return "request_not_supported", "request objects are not supported"
	case q.Get("response_type") != "code":
		return "unsupported_response_type", "response_type must be code"
	case q.Has("response_mode") && q.Get("response_mode") != "query":
		return "invalid_request", "response_mode must be query"
	case q.Get("code_challenge_method") != "S256" || !issue.ValidChallenge(a.Challenge):
		return "invalid_request", "PKCE is required: code_challenge with code_challenge_method S256"
	case len(a.state) > 4096:
		return "invalid_request", "state is longer than 4096 bytes"
	case a.resource == nil:
		return "invalid_target", fmt.Sprintf("no such resource here: %q", q.Get("resource"))
	}
	return "", ""
}

// back is where a browser returns to: with code or error, state and iss (RFC 9207).
func (s *Server) back(a *request, name, value, text string) template.URL {
	q := url.Values{name: {value}, "iss": {s.Config.Issuer}}
	if a.state != "" {
		q.Set("state", a.state)
	}
	if text != "" {
		q.Set("error_description", text)
	}
	sep := map[bool]string{true: "&", false: "?"}[strings.Contains(a.Grant.Redirect, "?")]
	return template.URL(a.Grant.Redirect + sep + q.Encode()) // checked by client.Matches
}

// fault says what is wrong with a request. Nobody is redirected, since whoever
// registered a client could use that to lead elsewhere (RFC 9700, section 4.11.2).
func (s *Server) fault(w http.ResponseWriter, a *request, code, text string) {
	v := s.view("This request cannot be answered", text, nil, false)
	if a != nil {
		v.Target, v.Back = client.Target(a.Grant.Redirect), s.back(a, "error", code, text)
	}
	s.show(w, http.StatusBadRequest, "fault", v)
}

// consentPage is the page that the owner decides on.
func (s *Server) consentPage(w http.ResponseWriter, status int, session *owner.Session, id string, a *request,
	ticked []string, wrong string) {
	v := s.view("Connect a client", wrong, session, !s.Config.OwnHost)
	v.Request, v.Asked, v.Target = id, a.Grant, client.Target(a.Grant.Redirect)
	v.Resource, v.Ticked, v.AskAgain = a.resource, ticked, !s.Config.OwnHost
	s.show(w, status, "consent", v)
}

// consent takes the owner's decision.
func (s *Server) consent(w http.ResponseWriter, r *http.Request) {
	session := s.owned(w, r, "", "You are signed out: sign in, then begin again in your assistant.")
	if session == nil {
		return
	}
	id, done := r.PostForm.Get("request"), "This page was answered already, or is too old."
	a, ok := session.Shown.Find(id, s.Now()).(*request)
	if !ok {
		s.fault(w, nil, "invalid_request", done)
		return
	}
	if r.PostForm.Get("decision") != "allow" {
		session.Shown.End(id, false)
		s.returnPage(w, "Not connected", a, s.back(a, "error", "access_denied", "the owner refused"))
		return
	}
	approval, err := s.decision(a, r)
	if err == nil && !s.Config.OwnHost {
		err = s.proved(r)
	}
	if err != nil {
		ticked := slices.Concat(r.PostForm["tools"], r.PostForm["egress"])
		s.consentPage(w, http.StatusForbidden, session, id, a, ticked, err.Error())
		return
	}
	if !session.Shown.End(id, false) { // sent twice at once
		s.fault(w, nil, "invalid_request", done)
		return
	}
	code, err := s.Approve(*approval)
	if err != nil {
		s.failed(w, err)
		return
	}
	s.returnPage(w, "Connected", a, s.back(a, "code", code, ""))
}

// decision reads what was ticked. The values are the grants themselves; one that was
// not offered is refused.
func (s *Server) decision(a *request, r *http.Request) (*issue.Approval, error) {
	approval := a.Approval
	g := &approval.Grant
	g.Tools, g.Egress = r.PostForm["tools"], append([]string{}, r.PostForm["egress"]...)
	days, err := strconv.Atoi(r.PostForm.Get("days"))
	offered := func(some, of []string) bool {
		return !slices.ContainsFunc(some, func(one string) bool { return !slices.Contains(of, one) })
	}
	switch {
	case err != nil || !slices.Contains(a.resource.Lasting(), days):
		return nil, errors.New("choose for how long")
	case !offered(g.Tools, a.resource.Grants) || !offered(g.Egress, a.resource.Egress):
		return nil, errors.New("something was ticked that is not offered")
	case len(g.Tools) == 0:
		return nil, errors.New("tick at least one thing that it may call, or deny")
	}
	g.Expires = s.Now().Add(time.Duration(days) * 24 * time.Hour)
	return &approval, nil
}

// returnPage sends the browser back by navigation. A redirect as the answer to the form
// would be stopped by form-action in Chromium.
func (s *Server) returnPage(w http.ResponseWriter, title string, a *request, to template.URL) {
	v := s.view(title, "", nil, false)
	v.Return, v.Target = to, client.Target(a.Grant.Redirect)
	s.show(w, http.StatusOK, "return", v)
}
