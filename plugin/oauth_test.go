package plugin

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// idp is an issuer with one key of each type.
type idp struct {
	mu     sync.Mutex
	server *httptest.Server
	rsa    *rsa.PrivateKey
	ec     *ecdsa.PrivateKey
	ec384  *ecdsa.PrivateKey
	ec521  *ecdsa.PrivateKey
	ed     ed25519.PrivateKey
	keys   []map[string]string
	odd    []interface{} // published before them
	// documents are discovery documents: path to issuer; nil: OpenID Connect's own
	documents map[string]string
	fetches   int
	down      bool
	hold      chan struct{} // not nil: a fetch of keys waits for it
	entered   chan struct{}
}

func (p *idp) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	down := p.down
	hold := p.hold
	keys := p.keys
	if r.URL.Path == "/keys" {
		p.fetches++
	}
	p.mu.Unlock()
	if down {
		rw.WriteHeader(500)
		return
	}
	if r.URL.Path == "/keys" {
		if hold != nil {
			p.entered <- struct{}{}
			<-hold
		}
		list := append([]interface{}{}, p.odd...)
		for _, k := range keys {
			list = append(list, k)
		}
		_ = json.NewEncoder(rw).Encode(map[string]interface{}{"keys": list})
		return
	}
	issuer := p.documents[r.URL.Path]
	if p.documents == nil && r.URL.Path == "/.well-known/openid-configuration" {
		issuer = p.server.URL
	}
	if issuer != "" {
		_ = json.NewEncoder(rw).Encode(map[string]string{"issuer": issuer, "jwks_uri": p.server.URL + "/keys"})
		return
	}
	rw.WriteHeader(404)
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// oneRSA is every issuer's: making one takes a second on a busy machine.
var oneRSA *rsa.PrivateKey

func newIDP(t testing.TB) *idp {
	t.Helper()
	p := &idp{entered: make(chan struct{}, 100)}
	var err error
	if oneRSA == nil {
		oneRSA, err = rsa.GenerateKey(rand.Reader, 2048)
		must(t, err)
	}
	p.rsa = oneRSA
	p.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	_, p.ed, err = ed25519.GenerateKey(rand.Reader)
	must(t, err)
	p.ec384, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	must(t, err)
	p.ec521, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	must(t, err)
	p.keys = []map[string]string{
		{"kty": "RSA", "kid": "r", "use": "sig", "n": b64(p.rsa.N.Bytes()), "e": b64(big.NewInt(int64(p.rsa.E)).Bytes())},
		point(t, "e", "P-256", p.ec),
		point(t, "e384", "P-384", p.ec384),
		point(t, "e521", "P-521", p.ec521),
		{"kty": "OKP", "kid": "d", "crv": "Ed25519", "x": b64(p.ed.Public().(ed25519.PublicKey))},
	}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() { p.server.Close() })
	return p
}

func point(t testing.TB, kid, crv string, private *ecdsa.PrivateKey) map[string]string {
	t.Helper()
	public, err := private.PublicKey.ECDH()
	must(t, err)
	raw := public.Bytes()
	half := len(raw) / 2
	return map[string]string{"kty": "EC", "kid": kid, "crv": crv, "x": b64(raw[1 : 1+half]), "y": b64(raw[1+half:])}
}

const audience = "https://n.example/mcp/mcp"

// claimsFor are good claims with changes: nil removes one.
func (p *idp) claimsFor(changes map[string]interface{}) map[string]interface{} {
	now := time.Now().Unix()
	c := map[string]interface{}{"iss": p.server.URL, "aud": audience, "sub": "alice", "exp": now + 600, "iat": now}
	for k, v := range changes {
		c[k] = v
		if v == nil {
			delete(c, k)
		}
	}
	return c
}

// sign signs any header and claims as alg says.
func (p *idp) sign(t testing.TB, header, claims map[string]interface{}) string {
	t.Helper()
	h, err := json.Marshal(header)
	must(t, err)
	c, err := json.Marshal(claims)
	must(t, err)
	alg, _ := header["alg"].(string)
	return p.signText(t, alg, b64(h)+"."+b64(c))
}

func (p *idp) signText(t testing.TB, alg, text string) string {
	t.Helper()
	var signature []byte
	var err error
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[alg[len(alg)-3:]]
	var sum []byte
	if hash != 0 {
		h := hash.New()
		_, _ = h.Write([]byte(text))
		sum = h.Sum(nil)
	}
	ec := map[string]*ecdsa.PrivateKey{"ES256": p.ec, "ES384": p.ec384, "ES512": p.ec521}[alg]
	switch {
	case ec != nil:
		r, s, wrong := ecdsa.Sign(rand.Reader, ec, sum)
		err = wrong
		size := (ec.Params().BitSize + 7) / 8
		signature = append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	case strings.HasPrefix(alg, "RS"):
		signature, err = rsa.SignPKCS1v15(rand.Reader, p.rsa, hash, sum)
	case strings.HasPrefix(alg, "PS"):
		signature, err = rsa.SignPSS(rand.Reader, p.rsa, hash, sum, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
	case strings.HasPrefix(alg, "Ed"):
		signature = ed25519.Sign(p.ed, []byte(text))
	case alg == "HS256": // with the public key, which everybody has
		mac := hmac.New(sha256.New, p.rsa.N.Bytes())
		_, _ = mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	must(t, err)
	return text + "." + b64(signature)
}

func head(alg, kid string) map[string]interface{} {
	return map[string]interface{}{"alg": alg, "kid": kid, "typ": "at+jwt"}
}

func (p *idp) good(t *testing.T) string { return p.sign(t, head("ES256", "e"), p.claimsFor(nil)) }

func (p *idp) config() *Config {
	c := config()
	c.OAuth = oauthConfig(p.server.URL)
	c.FailuresPerMinute = 10000
	return c
}

func bearing(text string) *http.Request {
	r := post("/mcp/mcp", readFile)
	r.Header.Set("Authorization", "Bearer "+text)
	return r
}

func TestOAuthTokens(t *testing.T) {
	logged(t)
	p := newIDP(t)
	s := &seen{}
	h := start(t, p.config(), s)
	for alg, kid := range map[string]string{"RS256": "r", "RS384": "r", "RS512": "r", "PS256": "r", "PS384": "r", "PS512": "r",
		"ES256": "e", "ES384": "e384", "ES512": "e521", "EdDSA": "d", "Ed25519": "d"} {
		for _, header := range []map[string]interface{}{head(alg, kid), {"alg": alg}} {
			text := p.sign(t, header, p.claimsFor(nil))
			for i := 0; i < 2; i++ { // the second time from memory
				if rec := do(h, bearing(text)); rec.Code != 200 {
					t.Errorf("%s: status %d %s", alg, rec.Code, rec.Body.String())
				}
			}
		}
	}
	if got := s.request.Header.Get("X-Sallyport-Principal"); got != "oauth:alice" {
		t.Errorf("the principal is %q", got)
	}
	if s.request.Header.Get("Authorization") != "Bearer "+serverToken {
		t.Error("the backend sees the client's token")
	}
	if p.fetches != 1 {
		t.Errorf("the keys were fetched %d times", p.fetches)
	}
	// Static tokens live beside them.
	if rec := do(h, post("/mcp/mcp", readFile)); rec.Code != 200 {
		t.Errorf("a static token: status %d", rec.Code)
	}
	// And have their own grants.
	r := bearing(p.good(t))
	payload(named("run_command"))(r)
	if rec := do(h, r); !strings.Contains(rec.Body.String(), "oauth:alice") {
		t.Errorf("a tool of the static token only: %s", rec.Body.String())
	}
}

func TestOAuthRefusals(t *testing.T) {
	logged(t)
	p := newIDP(t)
	other := newIDP(t)
	now := time.Now().Unix()
	h := start(t, p.config(), &seen{})
	claims := map[string]map[string]interface{}{
		"other issuer":          {"iss": "https://evil.example"},
		"issuer with a slash":   {"iss": p.server.URL + "/"},
		"no issuer":             {"iss": nil},
		"other audience":        {"aud": "https://n.example/other"},
		"audience prefix":       {"aud": audience + "/x"},
		"no audience":           {"aud": nil},
		"audiences without us":  {"aud": []string{"a", "b"}},
		"expired":               {"exp": now - 61},
		"no expiry":             {"exp": nil},
		"expiry as a string":    {"exp": "2999"},
		"expiry beyond the age": {"exp": 1e18},
		"negative expiry":       {"exp": -1},
		"not yet":               {"nbf": now + 120},
		"issued tomorrow":       {"iat": now + 86400},
		"no subject":            {"sub": nil},
		"subject as a number":   {"sub": 7},
		"empty subject":         {"sub": ""},
		"subject with a comma":  {"sub": "a,b"},
		"subject with a line":   {"sub": "a\nb"},
		"long subject":          {"sub": strings.Repeat("a", 129)},
	}
	for desc, changes := range claims {
		if rec := do(h, bearing(p.sign(t, head("ES256", "e"), p.claimsFor(changes)))); rec.Code != 401 {
			t.Errorf("%s: status %d", desc, rec.Code)
		}
	}
	good := p.good(t)
	parts := strings.Split(good, ".")
	hs := p.sign(t, head("HS256", "r"), p.claimsFor(nil))
	for desc, text := range map[string]string{
		"key of another issuer":    other.sign(t, head("ES256", "e"), p.claimsFor(nil)),
		"HMAC with the public key": hs,
		"HMAC said to be RS256":    b64([]byte(`{"alg":"RS256","kid":"r"}`)) + "." + strings.SplitN(hs, ".", 2)[1],
		"no algorithm":             b64([]byte(`{"alg":"none"}`)) + "." + parts[1] + ".",
		"None":                     b64([]byte(`{"alg":"None"}`)) + "." + parts[1] + "." + parts[2],
		"RS256 key for EdDSA":      p.sign(t, map[string]interface{}{"alg": "EdDSA", "kid": "r"}, p.claimsFor(nil)),
		"P-384 key for ES256":      p.sign(t, head("ES256", "e384"), p.claimsFor(nil)),
		"ES256 of a long key":      p.signText(t, "ES384", parts[0]+"."+parts[1]),
		"unknown kid":              p.sign(t, head("ES256", "x"), p.claimsFor(nil)),
		"kid as a number":          p.sign(t, map[string]interface{}{"alg": "ES256", "kid": 1}, p.claimsFor(nil)),
		"crit":                     p.sign(t, map[string]interface{}{"alg": "ES256", "crit": []string{"x"}}, p.claimsFor(nil)),
		"b64":                      p.sign(t, map[string]interface{}{"alg": "ES256", "b64": false}, p.claimsFor(nil)),
		"claim twice":              p.signText(t, "ES256", parts[0]+"."+b64([]byte(`{"iss":"x","iss":"`+p.server.URL+`"}`))),
		"changed claims":           parts[0] + "." + b64([]byte(`{}`)) + "." + parts[2],
		"cut signature":            good[:len(good)-4],
		"padded":                   good + "==",
		"a fourth part":            good + ".x",
		"two parts":                parts[0] + "." + parts[1],
		"no parts":                 "..",
		"not Base64":               "a!.b!.c!",
		"standard Base64":          strings.Replace(good, parts[0], parts[0]+"+/", 1),
		"empty signature":          parts[0] + "." + parts[1] + ".",
		"zero signature":           parts[0] + "." + parts[1] + "." + b64(make([]byte, 64)),
	} {
		rec := do(h, bearing(text))
		if rec.Code != 401 || !strings.Contains(rec.Header().Get("WWW-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: status %d %s", desc, rec.Code, rec.Header().Get("WWW-Authenticate"))
		}
	}
	if rec := do(h, bearing(good)); rec.Code != 200 {
		t.Errorf("the good token: status %d %s", rec.Code, rec.Body.String())
	}
}
