package plugin

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"math/big"
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

// knownKeys returns the keys that are at hand, whether they may be used without
// asking the issuer, and whether it may be asked now.
func knownKeys(s *keySet, now time.Time) ([]*key, bool, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	age := now.Sub(s.fetched)
	usable := len(s.keys) > 0 && (age < keysFresh || (age < keysUsable && s.busy != nil))
	due := s.busy != nil || now.Sub(s.tried) > keysInterval
	return s.keys, usable, due
}

// renew fetches the keys unless that was just tried, or waits for a fetch under way.
// The second result is false where they cannot be had.
func renew(c *call, is *issuer, s *keySet) ([]*key, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	return s.keys, len(s.keys) > 0 && c.start.Sub(s.fetched) < keysUsable
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
	var doc struct{ Keys []json.RawMessage }
	if err = fetchJSON(from, &doc); err != nil {
		return nil, err
	}
	for i := range doc.Keys {
		k := &key{}
		wrong := json.Unmarshal(doc.Keys[i], k) // one that cannot be read takes no other away
		k.Public = publicKey(k)
		if wrong == nil && k.Public != nil && (k.Use == "" || k.Use == "sig") &&
			(len(k.Ops) == 0 || contains(k.Ops, "verify")) && len(keys) < 100 {
			keys = append(keys, k)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key for "+algorithmNames, from)
	}
	return keys, nil
}

// curve is an elliptic curve of RFC 7518, section 6.2.1.1.
type curve struct {
	size int    // bytes of a coordinate
	spki string // what stands before the coordinates of a key (RFC 5480)
}

var curves = map[string]*curve{
	"P-256": {32,
		"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00\x04"},
	"P-384": {48, "\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00\x04"},
	"P-521": {66,
		"\x30\x81\x9b\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x23\x03\x81\x86\x00\x04"},
}

// publicKey returns nil for a key that no accepted signature can be made with.
func publicKey(j *key) crypto.PublicKey {
	x := base64Part(j.X)
	switch j.Kty {
	case "RSA":
		n := new(big.Int).SetBytes(base64Part(j.N))
		e := new(big.Int).SetBytes(base64Part(j.E))
		if n.BitLen() >= 2048 && n.BitLen() <= 16384 && e.BitLen() > 1 && e.BitLen() < 32 {
			return &rsa.PublicKey{N: n, E: int(e.Int64())}
		}
	case "EC":
		return pointOf(curves[j.Crv], x, base64Part(j.Y))
	case "OKP":
		if j.Crv == "Ed25519" && len(x) == ed25519.PublicKeySize {
			return ed25519.PublicKey(x)
		}
	}
	return nil
}

// pointOf reads a point as a SubjectPublicKeyInfo, which is refused off the curve.
func pointOf(c *curve, x, y []byte) crypto.PublicKey {
	if c == nil || len(x) != c.size || len(y) != c.size {
		return nil
	}
	public, err := x509.ParsePKIXPublicKey(append(append([]byte(c.spki), x...), y...))
	if err != nil {
		return nil
	}
	return public
}
