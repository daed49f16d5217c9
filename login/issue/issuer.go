// Package issue makes and withdraws what clients hold: codes, access tokens and
// refresh tokens.
package issue

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

// Times of what is handed out: access tokens for five minutes; a refresh token's
// predecessor works for 60 s more, three times.
const (
	AccessLife = 5 * time.Minute
	CodeLife   = time.Minute
	Grace      = time.Minute
	MaxGrace   = 3
)

// Issuer holds the state and the codes. Its methods may be called at the same time.
type Issuer struct {
	Config *settings.Config
	Store  *store.Store
	Fetch  *client.Fetcher
	Audit  *audit.Log // what it cannot record does not happen
	Now    func() time.Time

	codes owner.Memory[*code]
}

var refuse = client.Refuse

// Note records what happened in the audit: names and values in turn.
func (i *Issuer) Note(event, grant string, pairs ...string) error {
	details := map[string]string{"grant": grant}
	for n := 0; n+1 < len(pairs); n += 2 {
		details[pairs[n]] = pairs[n+1]
	}
	return i.Audit.Event(event, audit.Call{Principal: "owner"}, details, false)
}

// Proof is what a client sends of itself with a token request.
type Proof struct {
	ClientID  string
	Assertion string
}

// prove authenticates the client as it was when the owner agreed.
func (i *Issuer) prove(ctx context.Context, c *store.Client, p Proof) (*client.Assertion, error) {
	switch {
	case p.ClientID != c.ID && (p.ClientID != "" || p.Assertion == ""):
		return nil, refuse("invalid_grant", "this was given to another client")
	case p.Assertion != "":
		return i.Fetch.Verify(ctx, c, p.Assertion, i.Config.Issuer, i.Now())
	case !slices.Contains(c.Methods, client.None):
		return nil, refuse("invalid_client", "this client must authenticate with private_key_jwt")
	}
	return nil, nil
}

// spend marks an assertion as used; a second time is refused.
func spend(s *store.State, a *client.Assertion) error {
	if a == nil {
		return nil
	}
	if _, used := s.Assertions[a.ID]; used {
		return refuse("invalid_client", "client_assertion: its jti was used before")
	}
	s.Assertions[a.ID] = a.Until
	return nil
}

// Approval is what the owner agreed to: a grant that is not there yet, and the PKCE
// challenge (S256) of who may fetch it.
type Approval struct {
	Grant     store.Grant
	Challenge string
}

// Scope keeps of what a client asks what there is. Others are dropped, never refused.
func Scope(asked string) string {
	if slices.Contains(strings.Fields(asked), "offline_access") {
		return "mcp offline_access"
	}
	return "mcp"
}

// Approve makes the code for an approval.
func (i *Issuer) Approve(a Approval) (string, error) {
	g := &a.Grant
	g.ID = strings.ToLower(rand.Text())
	err := i.Note("consent", g.ID, "client", g.Client.ID, "redirect", g.Redirect, "resource", g.Resource,
		"tools", strings.Join(g.Tools, ","), "egress", strings.Join(g.Egress, ","),
		"expires", g.Expires.UTC().Format(time.RFC3339))
	return i.codes.Keep(&code{approval: a, made: i.Now()}, maxCodes, i.Now(), i.Now().Add(codeKept)), err
}

// Tokens is the answer of the token endpoint (RFC 6749, section 5.1).
type Tokens struct {
	Access  string `json:"access_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"` // seconds
	Refresh string `json:"refresh_token"`
	Scope   string `json:"scope"`
}

// Exchange redeems a code. Who presents the code of a client uses it up, right or wrong.
func (i *Issuer) Exchange(ctx context.Context, p Proof, code, redirect, verifier, resource string) (*Tokens, error) {
	found := i.codes.Find(code, i.Now())
	if found == nil || !found.used.Load() && i.Now().Sub(found.made) > CodeLife {
		return nil, refuse("invalid_grant", "the code is unknown or too old")
	}
	a := found.approval
	proof, err := i.prove(ctx, &a.Grant.Client, p)
	if err != nil {
		return nil, err
	}
	if found.used.Swap(true) {
		err := i.Store.Update(func(s *store.State) error { s.Revoke(a.Grant.ID, i.Now()); return nil })
		err = errors.Join(err, i.Note("code_reused", a.Grant.ID))
		return nil, cmp.Or(err, refuse("invalid_grant", "the code was used before; what it gave is withdrawn"))
	}
	_, audience := i.Config.Find(resource)
	switch {
	case redirect != "" && redirect != a.Grant.Redirect:
		return nil, refuse("invalid_grant", "redirect_uri is not the one of the authorization request")
	case !challenges(verifier, a.Challenge):
		return nil, refuse("invalid_grant", "code_verifier does not fit the code_challenge")
	case resource != "" && audience != a.Grant.Resource:
		return nil, refuse("invalid_target", "resource is not the one that was approved")
	}
	g := a.Grant
	g.Created, g.LastUsed, g.Rotated, g.Generation = i.Now(), i.Now(), i.Now(), 1
	if err := i.Note("grant", g.ID, "client", g.Client.ID); err != nil {
		return nil, err
	}
	if err := i.Store.Update(func(s *store.State) error { return add(s, &g, proof) }); err != nil {
		return nil, err
	}
	return i.tokens(&g)
}

// add keeps a new grant, and for good the registration that it came from.
func add(s *store.State, g *store.Grant, proof *client.Assertion) error {
	if _, revoked := s.Revoked[g.ID]; revoked || len(s.Grants) >= store.MaxGrants {
		return refuse("invalid_grant", "the code was used twice at once, or too many clients are connected")
	}
	if err := spend(s, proof); err != nil {
		return err
	}
	s.Grants[g.ID] = g
	if g.Client.Source == "registration" {
		g.Client.Approved = true
		s.Clients[g.Client.ID] = &g.Client
	}
	return nil
}

// Withdraw revokes a grant by its id, and reports whether there was one. When it
// returns, that is on the disk, in the edge's list too.
func (i *Issuer) Withdraw(id, why string) (found bool, err error) {
	err = i.Store.Update(func(s *store.State) error {
		if _, found = s.Grants[id]; found {
			s.Revoke(id, i.Now())
		}
		return nil
	})
	if found {
		err = errors.Join(err, i.Note("revoked", id, "why", why))
	}
	return found, err
}

// Tidy rotates keys and drops what is void. It writes only where something changed.
func (i *Issuer) Tidy() error {
	return i.Store.Update(func(s *store.State) error { return s.Tidy(i.Now()) })
}

// code is an authorization code that is out. They live in memory: a restart forgets them,
// so that none can be used twice.
type code struct {
	approval Approval
	made     time.Time
	used     atomic.Bool
}

// codeKept is how long a used code is known, to withdraw what it gave. maxCodes is how
// many are: only the owner's consent makes one.
const (
	codeKept = 10 * time.Minute
	maxCodes = 1000
)

var (
	verifierForm  = regexp.MustCompile(`^[A-Za-z0-9._~-]{43,128}$`)
	challengeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)
)

// ValidChallenge reports the form of an S256 code challenge (RFC 7636, section 4.2).
func ValidChallenge(text string) bool { return challengeForm.MatchString(text) }

func challenges(verifier, challenge string) bool {
	sum := sha256.Sum256([]byte(verifier))
	made := base64.RawURLEncoding.EncodeToString(sum[:])
	return verifierForm.MatchString(verifier) && subtle.ConstantTimeCompare([]byte(made), []byte(challenge)) == 1
}
