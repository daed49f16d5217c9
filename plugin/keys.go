package plugin

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// key is one usable key of an issuer, as RFC 7517 and RFC 7518, section 6, write
// it.
type key struct {
	Kty, Use, Kid, Alg, Crv, N, E, X, Y string

	Ops    []string         `json:"key_ops"`
	Public crypto.PublicKey `json:"-"`
}

// keySet is what is known of one issuer's keys. It is shared by all instances
// and lives on across reloads; it is fetched when a request needs it.
type keySet struct {
	mu      sync.Mutex
	keys    []*key
	fetched time.Time     // of keys
	tried   time.Time     // last attempt
	busy    chan struct{} // not nil while one request fetches
}

// How keys age. An issuer that is down costs nothing for a day: its keys stay.
// An unknown kid makes one fetch, and then none for a while, whoever sends it.
const (
	keysFresh    = 15 * time.Minute
	keysUsable   = 24 * time.Hour
	keysInterval = 15 * time.Second
	fetchTimeout = 5 * time.Second
	maxKeySets   = 64
)

var (
	keySetMu sync.Mutex
	keySets  = map[string]*keySet{}
)

func keySetOf(is *issuer) *keySet {
	id := is.url + "\x00" + is.jwksURL
	keySetMu.Lock()
	defer keySetMu.Unlock()
	s := keySets[id]
	if s == nil {
		if len(keySets) >= maxKeySets {
			keySets = map[string]*keySet{} // only a configuration makes new ones
		}
		s = &keySet{}
		keySets[id] = s
	}
	return s
}

// freshKeys returns the keys that may have signed t, as far as that is known
// without a fetch. The second result says that a fetch would change nothing: the
// keys are fresh and one fits, or none does and the next fetch is not due.
func freshKeys(c *call, is *issuer, t *jwt) ([]*key, bool) {
	s := keySetOf(is)
	s.mu.Lock()
	defer s.mu.Unlock()
	found := candidates(s.keys, t)
	age := c.start.Sub(s.fetched)
	if len(found) > 0 {
		return found, age < keysFresh
	}
	return nil, age < keysFresh && s.busy == nil && c.start.Sub(s.tried) <= keysInterval
}

// findKeys returns the keys that may have signed t. The second result is false
// where the issuer's keys are not to be had.
func findKeys(c *call, is *issuer, t *jwt) ([]*key, bool) {
	s := keySetOf(is)
	s.mu.Lock()
	defer s.mu.Unlock()
	found := candidates(s.keys, t)
	age := c.start.Sub(s.fetched)
	if len(found) > 0 && (age < keysFresh || (age < keysUsable && s.busy != nil)) {
		return found, true
	}
	if busy := s.busy; busy != nil {
		s.mu.Unlock()
		select {
		case <-busy:
		case <-c.r.Context().Done():
		}
		s.mu.Lock()
	} else if c.start.Sub(s.tried) > keysInterval {
		s.tried = c.start
		refetch(c.e, s, is)
	}
	return candidates(s.keys, t), len(s.keys) > 0 && c.start.Sub(s.fetched) < keysUsable
}

// candidates match the key id and the algorithm's type. A token without kid may
// be signed by any key of the type.
func candidates(keys []*key, t *jwt) []*key {
	var found []*key
	for _, k := range keys {
		if (t.kid == "" || k.Kid == t.kid) && k.Kty == algorithms[t.alg] && (k.Alg == "" || k.Alg == t.alg) {
			found = append(found, k)
		}
	}
	return found
}

// refetch replaces the keys, or keeps them where the issuer does not answer. It
// is called with s locked, and unlocks it meanwhile. It is not bound to the
// request: others wait for it.
func refetch(e *edge, s *keySet, is *issuer) {
	s.busy = make(chan struct{})
	s.mu.Unlock()
	keys, err := fetchKeys(is)
	s.mu.Lock()
	close(s.busy)
	s.busy = nil
	if err != nil {
		e.log.Error("the keys of " + is.url + " cannot be fetched: " + err.Error())
		return
	}
	s.keys = keys
	s.fetched = time.Now()
}

// fetchKeys turns a panic into an error: its caller is between two locks.
func fetchKeys(is *issuer) (keys []*key, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("bug: %v", v)
		}
	}()
	from := is.jwksURL
	if from == "" {
		if from, err = discover(is.url); err != nil {
			return nil, err
		}
	}
	var doc struct{ Keys []key }
	if err = fetchJSON(from, &doc); err != nil {
		return nil, err
	}
	for i := range doc.Keys {
		k := &doc.Keys[i]
		k.Public = publicKey(k)
		if k.Public != nil && (k.Use == "" || k.Use == "sig") && (len(k.Ops) == 0 || contains(k.Ops, "verify")) && len(keys) < 100 {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key for RS256, PS256, ES256 or EdDSA", from)
	}
	return keys, nil
}

// discover asks OpenID Connect's well-known document.
func discover(issuer string) (string, error) {
	at := strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"
	var doc struct {
		Issuer string
		JWKS   string `json:"jwks_uri"`
	}
	if err := fetchJSON(at, &doc); err != nil {
		return "", err
	}
	keys, err := url.Parse(doc.JWKS)
	if err != nil || doc.Issuer != issuer || !safeURL(keys) {
		return "", errors.New(at + " names another issuer or no https jwks_uri")
	}
	return doc.JWKS, nil
}

// client follows no redirect: keys come from where the configuration says.
var client = &http.Client{Timeout: fetchTimeout, CheckRedirect: noRedirect}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func fetchJSON(from string, into interface{}) error {
	resp, err := client.Get(from)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", from, resp.StatusCode)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}

// spkiP256 is what stands before the coordinates of a P-256 key (RFC 5480).
const spkiP256 = "\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04"

// publicKey returns nil for a key that no accepted signature can be made with.
func publicKey(j *key) crypto.PublicKey {
	x := base64Part(j.X)
	switch {
	case j.Kty == "RSA":
		n := new(big.Int).SetBytes(base64Part(j.N))
		e := new(big.Int).SetBytes(base64Part(j.E))
		if n.BitLen() >= 2048 && n.BitLen() <= 16384 && e.BitLen() > 1 && e.BitLen() < 32 {
			return &rsa.PublicKey{N: n, E: int(e.Int64())}
		}
	case j.Kty == "EC" && j.Crv == "P-256":
		// As a SubjectPublicKeyInfo, which is refused off the curve.
		point := append(x, base64Part(j.Y)...)
		if public, err := x509.ParsePKIXPublicKey(append([]byte(spkiP256), point...)); err == nil {
			return public
		}
	case j.Kty == "OKP" && j.Crv == "Ed25519" && len(x) == ed25519.PublicKeySize:
		return ed25519.PublicKey(x)
	}
	return nil
}
