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
		"other curve":      {Kty: "EC", Crv: "P-384", X: b64(make([]byte, 48)), Y: b64(make([]byte, 48))},
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
