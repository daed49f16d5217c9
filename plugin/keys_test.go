package plugin

import (
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// aged moves the clock of an issuer's keys.
func aged(p *idp, keys, attempt time.Duration) {
	s := keySetOf(&issuer{url: p.server.URL})
	s.mu.Lock()
	s.fetched = s.fetched.Add(-keys)
	s.tried = s.tried.Add(-attempt)
	s.mu.Unlock()
}

func TestKeysRotate(t *testing.T) {
	log := logged(t)
	p := newIDP(t)
	h := start(t, p.config(), &seen{})
	status := func(kid string) int {
		return do(h, bearing(p.sign(t, head("ES256", kid), p.claimsFor(map[string]interface{}{"jti": time.Now().UnixNano()})))).Code
	}
	if code := status("e"); code != 200 {
		t.Fatalf("status %d", code)
	}
	p.keys[1]["kid"] = "e2"
	if code := status("e2"); code != 401 || p.fetches != 1 {
		t.Errorf("within the interval: status %d, %d fetches", code, p.fetches)
	}
	aged(p, 0, time.Minute)
	if code := status("e2"); code != 200 || p.fetches != 2 {
		t.Errorf("a new key: status %d, %d fetches", code, p.fetches)
	}
	if code := status("e"); code != 401 {
		t.Errorf("the old key: status %d", code)
	}
	// The issuer is down: its keys stay for a day.
	p.down = true
	aged(p, time.Hour, time.Minute)
	if code := status("e2"); code != 200 {
		t.Errorf("issuer down, keys an hour old: status %d", code)
	}
	aged(p, 25*time.Hour, time.Minute)
	if code := status("e2"); code != 503 {
		t.Errorf("issuer down for a day: status %d", code)
	}
	if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 200 {
		t.Errorf("issuer down: a static token gets %d", rec.Code)
	}
	p.down = false
	aged(p, 0, time.Minute)
	if code := status("e2"); code != 200 {
		t.Errorf("issuer back: status %d", code)
	}
	if !strings.Contains(log.String(), "cannot be fetched") {
		t.Error("the log does not say that the issuer is down")
	}
}

// What an issuer publishes beside its good keys does no harm.
func TestOddKeysAreSkipped(t *testing.T) {
	logged(t)
	p := newIDP(t)
	p.keys = append([]map[string]string{nil, {}, {"kty": "oct"}}, p.keys...)
	p.odd = []interface{}{"text", 5, []int{1}, map[string]interface{}{"kty": "RSA", "kid": 5}, map[string]interface{}{"kty": 1, "key_ops": "verify"},
		map[string]interface{}{"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA", "x5c": []string{"AA"}, "exp": 1}}
	if rec := do(start(t, p.config(), &seen{}), bearing(p.good(t))); rec.Code != 200 {
		t.Errorf("status %d %s", rec.Code, rec.Body.String())
	}
}

func serveCode(h http.Handler, r *http.Request, codes chan int) {
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	codes <- rec.Code
}

func TestKeysAreFetchedOnce(t *testing.T) {
	logged(t)
	p := newIDP(t)
	h := start(t, p.config(), &seen{})
	p.hold = make(chan struct{})
	codes := make(chan int, 8)
	text := p.good(t)
	go serveCode(h, bearing(text), codes)
	<-p.entered
	for i := 0; i < 7; i++ {
		go serveCode(h, bearing(text), codes)
	}
	// A token of someone else is refused meanwhile, without waiting.
	if rec := do(h, bearing(p.sign(t, head("ES256", "e"), p.claimsFor(map[string]interface{}{"iss": "x"})))); rec.Code != 401 {
		t.Errorf("status %d", rec.Code)
	}
	close(p.hold)
	for i := 0; i < 8; i++ {
		if code := <-codes; code != 200 {
			t.Errorf("status %d", code)
		}
	}
	if p.fetches != 1 {
		t.Errorf("%d fetches", p.fetches)
	}
}

func TestWeakKeys(t *testing.T) {
	for desc, j := range map[string]key{
		"short RSA":        {Kty: "RSA", N: b64(big.NewInt(1 << 40).Bytes()), E: "AQAB"},
		"RSA exponent one": {Kty: "RSA", N: b64(make([]byte, 256)), E: "AQ"},
		"off the curve":    {Kty: "EC", Crv: "P-256", X: b64(make([]byte, 32)), Y: b64(make([]byte, 32))},
		"off a longer one": {Kty: "EC", Crv: "P-384", X: b64(make([]byte, 48)), Y: b64(make([]byte, 48))},
		"other curve":      {Kty: "EC", Crv: "secp256k1", X: b64(make([]byte, 32)), Y: b64(make([]byte, 32))},
		"short coordinate": {Kty: "EC", Crv: "P-256", X: b64(make([]byte, 31)), Y: b64(make([]byte, 33))},
		"symmetric":        {Kty: "oct"},
		"short Ed25519":    {Kty: "OKP", Crv: "Ed25519", X: b64(make([]byte, 31))},
		"X25519":           {Kty: "OKP", Crv: "X25519", X: b64(make([]byte, 32))},
		"nothing":          {},
	} {
		if publicKey(&j) != nil {
			t.Errorf("%s is a key", desc)
		}
	}
}

// Keys need no id, and where they have none a rotation is still seen.
func TestKeysWithoutID(t *testing.T) {
	logged(t)
	p := newIDP(t)
	for i := range p.keys {
		delete(p.keys[i], "kid")
	}
	h := start(t, p.config(), &seen{})
	good := func(from *idp, kid string) int {
		return do(h, bearing(from.sign(t, head("ES256", kid), p.claimsFor(map[string]interface{}{"jti": time.Now().UnixNano()})))).Code
	}
	if code := good(p, "e"); code != 200 {
		t.Errorf("a token with a key id: status %d", code)
	}
	next := newIDP(t)
	for i := range next.keys {
		delete(next.keys[i], "kid")
	}
	p.mu.Lock()
	p.keys = next.keys
	p.mu.Unlock()
	if code := good(next, "e"); code != 401 || p.fetches != 1 {
		t.Errorf("within the interval: status %d, %d fetches", code, p.fetches)
	}
	aged(p, 0, time.Minute)
	if code := good(next, "e"); code != 200 || p.fetches != 2 {
		t.Errorf("a new key: status %d, %d fetches", code, p.fetches)
	}
	if code := good(p, "e"); code != 401 {
		t.Errorf("the old key: status %d", code)
	}
}

// Issuers publish their keys' place in one of three documents.
func TestDiscovery(t *testing.T) {
	logged(t)
	for _, at := range []string{"/.well-known/oauth-authorization-server/realms/x", "/.well-known/openid-configuration/realms/x", "/realms/x/.well-known/openid-configuration"} {
		for issuer, status := range map[string]int{"": 200, "/": 503, "x": 503} {
			p := newIDP(t)
			p.documents = map[string]string{at: p.server.URL + "/realms/x" + issuer}
			c := p.config()
			c.OAuth.Issuer = p.server.URL + "/realms/x"
			token := p.sign(t, head("ES256", "e"), p.claimsFor(map[string]interface{}{"iss": c.OAuth.Issuer}))
			if rec := do(start(t, c, &seen{}), bearing(token)); rec.Code != status {
				t.Errorf("%s of issuer …%s: status %d", at, issuer, rec.Code)
			}
		}
	}
}
