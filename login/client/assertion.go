package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sallyport-dev/sallyport/login/store"
)

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
func (f *Fetcher) Verify(ctx context.Context, c *store.Client, text string, audiences []string, now time.Time) (*Assertion, error) {
	bad := func(text string) (*Assertion, error) {
		return nil, &Error{"invalid_client", "client_assertion: " + text}
	}
	token, err := jwt.ParseSigned(text, Algorithms)
	if !slices.Contains(c.Methods, PrivateKeyJWT) || err != nil || len(token.Headers) != 1 {
		return bad("not a JWT signed with RS256 or ES256, or not by a client with keys")
	}
	var claims jwt.Claims
	if err := f.signed(ctx, c, token, &claims); err != nil {
		return bad(err.Error())
	}
	expected := jwt.Expected{Issuer: c.ID, Subject: c.ID, AnyAudience: audiences, Time: now}
	switch {
	case claims.ValidateWithLeeway(expected, skew) != nil || len(claims.Audience) == 0:
		return bad("iss and sub must be the client id, aud the issuer or the endpoint, and it must be valid now")
	case claims.Expiry == nil || claims.Expiry.Time().After(now.Add(longest)):
		return bad("exp is missing or lies more than an hour ahead")
	case claims.ID == "":
		return bad("jti is missing")
	}
	sum := sha256.Sum256([]byte(c.ID + "\x00" + claims.ID))
	return &Assertion{ID: hex.EncodeToString(sum[:16]), Until: claims.Expiry.Time().Add(skew)}, nil
}

// signed checks the signature by the client's keys as they are now.
func (f *Fetcher) signed(ctx context.Context, c *store.Client, token *jwt.JSONWebToken, claims *jwt.Claims) error {
	raw, err := c.JWKS, error(nil)
	if c.JWKSURI != "" {
		raw, err = f.fetch(ctx, c.JWKSURI)
	}
	if err != nil {
		return err
	}
	set, err := parseKeys(raw)
	if err != nil {
		return err
	}
	for _, k := range set.Keys {
		h := token.Headers[0]
		fits := (h.KeyID == "" || k.KeyID == "" || h.KeyID == k.KeyID) && (k.Algorithm == "" || k.Algorithm == h.Algorithm)
		if fits && token.Claims(k.Key, claims) == nil {
			return nil
		}
	}
	return errors.New("none of the client's keys made its signature")
}
