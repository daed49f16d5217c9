// Package client knows the OAuth clients: their registration, their redirect URIs and
// how they prove who they are.
package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

// metadata is what a client says of itself (RFC 7591, section 2), the same in a
// registration and in a client ID metadata document.
type metadata struct {
	ID        string          `json:"client_id"`
	Name      string          `json:"client_name"`
	Redirects []string        `json:"redirect_uris"`
	Method    string          `json:"token_endpoint_auth_method"`
	Methods   []string        `json:"token_endpoint_auth_methods_supported"`
	Grants    []string        `json:"grant_types"`
	JWKS      json.RawMessage `json:"jwks"`
	JWKSURI   string          `json:"jwks_uri"`
}

// The ways in which a client can authenticate at the token endpoint.
const (
	None          = "none"
	PrivateKeyJWT = "private_key_jwt"
)

// build checks what the client says and makes the client of it.
func (m *metadata) build(source string, now time.Time) (*store.Client, error) {
	c := &store.Client{ID: m.ID, Name: clean(m.Name), Redirects: usable(m.Redirects), Source: source, Created: now}
	if len(c.Redirects) == 0 {
		return nil, &Error{"invalid_redirect_uri", "no redirect URI can be used: https, http on loopback or Cursor's"}
	}
	if len(m.Grants) > 0 && !slices.Contains(m.Grants, "authorization_code") {
		return nil, &Error{"invalid_client_metadata", "grant_types must name authorization_code"}
	}
	if err := m.keys(c); err != nil {
		return nil, &Error{"invalid_client_metadata", err.Error()}
	}
	return c, nil
}

// keys finds how the client may authenticate. One that asks for a secret becomes a
// public client, as RFC 7591, section 3.2.1, allows: PKCE is required of all. A
// metadata document's plural list counts too (ChatGPT's).
func (m *metadata) keys(c *store.Client) error {
	signed := m.Method == PrivateKeyJWT || m.Method == "" && slices.Contains(m.Methods, PrivateKeyJWT)
	if m.Method != PrivateKeyJWT || slices.Contains(m.Methods, None) {
		c.Methods = append(c.Methods, None)
	}
	if !signed {
		return nil
	}
	u, err := url.Parse(m.JWKSURI)
	if err != nil || m.JWKSURI != "" && (u.Scheme != "https" || u.Host == "" || u.User != nil) {
		return errors.New("jwks_uri must be an https URL")
	}
	if _, err := parseKeys(m.JWKS); (m.JWKSURI == "") == (err != nil) {
		return errors.New("private_key_jwt needs either jwks_uri or jwks, with 1 to 20 public keys")
	}
	c.JWKS, c.JWKSURI = m.JWKS, m.JWKSURI
	c.Methods = append(c.Methods, PrivateKeyJWT)
	return nil
}

// parseKeys takes public keys of clients: RSA from 2048 bits, EC on P-256.
func parseKeys(raw []byte) (*jose.JSONWebKeySet, error) {
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("the client's keys are not readable: %w", err)
	}
	set.Keys = slices.DeleteFunc(set.Keys, func(k jose.JSONWebKey) bool {
		rsaKey, isRSA := k.Key.(*rsa.PublicKey)
		return !k.IsPublic() || k.Use == "enc" || isRSA && rsaKey.N.BitLen() < 2048
	})
	if len(set.Keys) == 0 || len(set.Keys) > 20 {
		return nil, errors.New("the client's key set must hold 1 to 20 public keys")
	}
	return &set, nil
}

// clean keeps a name readable: no control or direction characters, at most 80.
func clean(name string) string {
	runes := []rune(strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.Is(unicode.C, r) || r == unicode.ReplacementChar
	}), " "))
	return string(runes[:min(len(runes), 80)])
}

// Register makes a client of a registration's body (RFC 7591, section 3.1).
func Register(body []byte, now time.Time) (*store.Client, error) {
	var m metadata
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, &Error{"invalid_client_metadata", "the body is not a JSON object of client metadata"}
	}
	m.ID, m.Methods = "c"+rand.Text(), nil // the plural list is of documents only
	return m.build("registration", now)
}

// ByHand makes the clients of login.json.
func ByHand(c *settings.Config) (map[string]*store.Client, error) {
	all := map[string]*store.Client{}
	var wrong []error
	for _, f := range c.Clients {
		m := metadata{ID: f.ID, Name: f.Name, Redirects: f.Redirects, JWKS: f.JWKS, JWKSURI: f.JWKSURI}
		if len(f.JWKS) > 0 || f.JWKSURI != "" {
			m.Method = PrivateKeyJWT
		}
		made, err := m.build("file", time.Time{})
		if err != nil || f.ID == "" {
			wrong = append(wrong, fmt.Errorf("client %q of login.json needs an id and redirects: %w", f.ID, err))
		}
		all[f.ID] = made
	}
	return all, errors.Join(wrong...)
}

// Error is an answer of OAuth's: a code of its registry and a text for people.
type Error struct{ Code, Text string }

// Refuse makes one.
func Refuse(code, text string) error { return &Error{code, text} }

// Error is both, for logs.
func (e *Error) Error() string { return e.Code + ": " + e.Text }

// AssertionType is the only client_assertion_type (RFC 7523, section 2.2).
const AssertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// longest is how far ahead an assertion may expire: so long its jti is kept.
const longest = time.Hour

// skew is what clocks may differ by.
const skew = 60 * time.Second

// Algorithms are those that a client's assertion may be signed with.
var Algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256}

// Assertion is a client's proof that passed every check but one: that it comes for
// the first time. Until is when its ID may be forgotten.
type Assertion struct {
	ID    string
	Until time.Time
}

// Verify checks a client assertion (RFC 7523, section 3). Keys come from the client's
// registered set only; what the header says of keys (jku, x5u, jwk) is not read.
func (f *Fetcher) Verify(ctx context.Context, c *store.Client, text, issuer string, now time.Time) (*Assertion, error) {
	bad := func(text string) error { return Refuse("invalid_client", "client_assertion: "+text) }
	token, err := jwt.ParseSigned(text, Algorithms)
	if !slices.Contains(c.Methods, PrivateKeyJWT) || err != nil || len(token.Headers) != 1 {
		return nil, bad("not a JWT signed with RS256 or ES256, or not by a client with keys")
	}
	var claims jwt.Claims
	if err := f.signed(ctx, c, token, &claims); err != nil {
		return nil, bad(err.Error())
	}
	expected := jwt.Expected{Issuer: c.ID, Subject: c.ID, Time: now}
	expected.AnyAudience = []string{issuer, issuer + "/token", issuer + "/revoke"}
	switch {
	case claims.ValidateWithLeeway(expected, skew) != nil || len(claims.Audience) == 0:
		return nil, bad("iss and sub must be the client id, aud the issuer or the endpoint, and it must be valid now")
	case claims.Expiry == nil || claims.Expiry.Time().After(now.Add(longest)):
		return nil, bad("exp is missing or lies more than an hour ahead")
	case claims.ID == "":
		return nil, bad("jti is missing")
	}
	sum := sha256.Sum256([]byte(c.ID + "\x00" + claims.ID))
	return &Assertion{ID: hex.EncodeToString(sum[:16]), Until: claims.Expiry.Time().Add(skew)}, nil
}

// signed checks the signature by the client's keys as they are now.
func (f *Fetcher) signed(ctx context.Context, c *store.Client, token *jwt.JSONWebToken, claims *jwt.Claims) error {
	raw := json.RawMessage(slices.Clone(c.JWKS)) // fetch writes over it, and the state has the same bytes
	if c.JWKSURI != "" {
		if err := f.fetch(ctx, c.JWKSURI, &raw); err != nil {
			return err
		}
	}
	set, err := parseKeys(raw)
	if err != nil {
		return err
	}
	for _, k := range set.Keys {
		h := token.Headers[0]
		named := h.KeyID == "" || k.KeyID == "" || h.KeyID == k.KeyID
		if named && cmp.Or(k.Algorithm, h.Algorithm) == h.Algorithm && token.Claims(k.Key, claims) == nil {
			return nil
		}
	}
	return errors.New("none of the client's keys made its signature")
}
