package issue

import (
	"crypto/rand"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sallyport-dev/sallyport/login/store"
)

// access are the claims of an access token (RFC 9068, section 2.2). Times are seconds.
type access struct {
	Issuer   string   `json:"iss"`
	Subject  string   `json:"sub"`
	Audience string   `json:"aud"`
	Expires  int64    `json:"exp"`
	Issued   int64    `json:"iat"`
	ID       string   `json:"jti"`
	Client   string   `json:"client_id"`
	Scope    string   `json:"scope"`
	Tools    []string `json:"tools"`
	Egress   []string `json:"egress"`
	Grant    string   `json:"grant"`
}

// tokens makes the pair for a grant. Of what was ticked it gives what login.json still offers.
func (i *Issuer) tokens(g *store.Grant) (*Tokens, error) {
	now := i.Now()
	resource, _ := i.Config.Find(g.Resource)
	if resource == nil {
		return nil, refuse("invalid_target", "the resource is no longer offered")
	}
	until := slices.MinFunc([]time.Time{now.Add(AccessLife), g.Expires}, time.Time.Compare)
	claims := access{
		Issuer: i.Config.Issuer, Subject: i.Config.Subject, Audience: g.Resource, Scope: g.Scope, Grant: g.ID,
		Expires: until.Unix(), Issued: now.Unix(), ID: rand.Text(), Client: g.Client.ID,
		Tools: both(g.Tools, resource.Grants), Egress: both(g.Egress, resource.Egress),
	}
	var key store.SigningKey
	var refresh string
	i.Store.View(func(s *store.State) { key, refresh = s.Signer(now), refreshToken(s, g.ID, g.Generation) })
	signed, err := sign(key, claims)
	return &Tokens{signed, "Bearer", int(until.Sub(now).Seconds()), refresh, g.Scope}, err
}

func both(ticked, offered []string) []string {
	return slices.DeleteFunc(append([]string{}, ticked...), func(t string) bool { return !slices.Contains(offered, t) })
}

func sign(key store.SigningKey, claims access) (string, error) {
	private, err := key.Key()
	if err != nil {
		return "", err
	}
	with := jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: private, KeyID: key.ID}}
	signer, err := jose.NewSigner(with, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		return "", err
	}
	return jwt.Signed(signer).Claims(claims).Serialize()
}

// PublicKeys is the published key set (RFC 7517, section 5).
func (i *Issuer) PublicKeys() (set jose.JSONWebKeySet) {
	i.Store.View(func(s *store.State) {
		for _, k := range s.Signing {
			if own, err := k.Key(); err == nil {
				public := jose.JSONWebKey{Key: own.Public(), KeyID: k.ID, Algorithm: "ES256", Use: "sig"}
				set.Keys = append(set.Keys, public)
			}
		}
	})
	return set
}

// grantOfAccess returns the grant that an access token of ours names.
func (i *Issuer) grantOfAccess(token string) (g store.Grant, ok bool) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	if err != nil || len(parsed.Headers) != 1 {
		return g, false
	}
	var claims access
	set := i.PublicKeys()
	for _, k := range set.Key(parsed.Headers[0].KeyID) {
		ok = ok || parsed.Claims(k.Key, &claims) == nil
	}
	i.Store.View(func(s *store.State) {
		if found := s.Grants[claims.Grant]; ok && found != nil {
			g = *found
		}
	})
	return g, ok && g.ID != ""
}
