package web

import (
	"context"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
	"github.com/sallyport-dev/sallyport/login/store"
)

const formType = "application/x-www-form-urlencoded"

// ask reads a body of parameters, and what the client says of itself.
func (s *Server) ask(r *http.Request) (f url.Values, p issue.Proof, err error) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind != formType || r.ParseForm() != nil {
		return f, p, client.Refuse("invalid_request", "the body must be "+formType+", of at most 64 KiB")
	}
	f = r.PostForm
	if name := twice(f); name != "" {
		return f, p, client.Refuse("invalid_request", name+" comes twice")
	}
	p.ClientID, p.Assertion = f.Get("client_id"), f.Get("client_assertion")
	if p.Assertion != "" && f.Get("client_assertion_type") != client.AssertionType {
		return f, p, client.Refuse("invalid_request", "client_assertion_type must be "+client.AssertionType)
	}
	return f, p, nil
}

// token is RFC 6749, section 3.2.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	f, p, err := s.ask(r)
	var tokens *issue.Tokens
	switch kind := f.Get("grant_type"); {
	case err != nil:
	case kind == "authorization_code":
		tokens, err = s.Exchange(r.Context(), p, f.Get("code"), f.Get("redirect_uri"), f.Get("code_verifier"),
			f.Get("resource"))
	case kind == "refresh_token":
		tokens, err = s.Refresh(r.Context(), p, f.Get("refresh_token"), f.Get("resource"))
	default:
		err = client.Refuse("unsupported_grant_type", "use authorization_code or refresh_token")
	}
	if err != nil {
		s.failed(w, err)
		return
	}
	answer(w, http.StatusOK, tokens)
}

// revoke is RFC 7009. An unknown token is answered like a known one.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	f, p, err := s.ask(r)
	if err == nil {
		err = s.RevokeToken(r.Context(), p, f.Get("token"))
	}
	if err != nil {
		s.failed(w, err)
		return
	}
	answer(w, http.StatusOK, struct{}{})
}

// Limits of registrations. Claude registers twice for one attempt, and behind Funnel
// everyone has one address.
const (
	registrationsEach  = 60 // a minute, per address
	registrationsTotal = 300
	registrationLife   = time.Hour // of one that the owner never approved
	maxRegistrations   = 1000      // of those
)

// limiter counts within one minute.
type limiter struct {
	mu    sync.Mutex
	began time.Time
	each  map[string]int // "" is everybody
}

func (l *limiter) full(who string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) > time.Minute {
		l.began, l.each = now, map[string]int{}
	}
	if l.each[who] >= registrationsEach || l.each[""] >= registrationsTotal { // nobody fills everybody's
		return true
	}
	l.each[""]++
	l.each[who]++
	return false
}

// register is RFC 7591.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	now := s.Now()
	if s.limit.full(caller(r), now) {
		w.Header().Set("Retry-After", "60")
		fail(w, http.StatusTooManyRequests, "temporarily_unavailable", "too many registrations: try again in a minute")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 8<<10))
	if err != nil {
		fail(w, http.StatusRequestEntityTooLarge, "invalid_client_metadata", "the body is larger than 8 KiB")
		return
	}
	c, err := client.Register(body, now)
	if err == nil {
		err = s.Store.Update(func(st *store.State) error { makeRoom(st, now); st.Clients[c.ID] = c; return nil })
	}
	if err != nil {
		s.failed(w, err)
		return
	}
	made := map[string]any{ // no member is null: clients' parsers refuse that (RFC 7591, section 3.2.1)
		"client_id": c.ID, "client_id_issued_at": now.Unix(), "client_name": c.Name, "redirect_uris": c.Redirects,
		"token_endpoint_auth_method": c.Methods[0], "grant_types": []string{"authorization_code", "refresh_token"},
		"response_types": []string{"code"}, "scope": "mcp offline_access",
	}
	if c.JWKSURI != "" {
		made["jwks_uri"] = c.JWKSURI
	}
	answer(w, http.StatusCreated, made)
}

func void(c *store.Client, now time.Time) bool {
	return !c.Approved && now.Sub(c.Created) > registrationLife
}

// makeRoom drops registrations that were never approved: those that are too old, and the
// oldest where there are too many.
func makeRoom(st *store.State, now time.Time) {
	maps.DeleteFunc(st.Clients, func(_ string, c *store.Client) bool { return void(c, now) })
	approved := func(c *store.Client) bool { return c.Approved }
	waiting := slices.DeleteFunc(slices.Collect(maps.Values(st.Clients)), approved)
	if len(waiting) >= maxRegistrations {
		oldest := slices.MinFunc(waiting, func(a, b *store.Client) int { return a.Created.Compare(b.Created) })
		delete(st.Clients, oldest.ID)
	}
}

// client finds who a client_id names: written in login.json, registered, or a document
// that is fetched.
func (s *Server) client(ctx context.Context, id string) (*store.Client, error) {
	found := s.byHand[id]
	s.Store.View(func(st *store.State) {
		if c := st.Clients[id]; found == nil && c != nil && !void(c, s.Now()) {
			found = c
		}
	})
	if found == nil && strings.HasPrefix(id, "https://") {
		return s.Fetch.Document(ctx, id)
	}
	if found == nil {
		return nil, client.Refuse("invalid_client", "unknown client: remove it in your assistant and add it anew")
	}
	return found, nil
}
