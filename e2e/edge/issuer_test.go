package edge

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	_ "crypto/sha512" // hashes of the longer algorithms
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// issuer signs what a test says, so that tokens of any real or hostile issuer can
// be tried. Its URL has a path.
type issuer struct {
	*httptest.Server
	at   string // where its metadata is; changed before it is asked
	keys []map[string]any
	rsa  *rsa.PrivateKey
	ec   map[string]*ecdsa.PrivateKey // by algorithm
	ed   ed25519.PrivateKey
}

const issuerPath = "/realms/home"

func (i *issuer) url() string { return i.URL + issuerPath }

// oneRSA is every issuer's: making one takes a second on a busy machine.
var oneRSA = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

func newIssuer(t *testing.T, kid string) *issuer {
	t.Helper()
	i := &issuer{at: "/.well-known/openid-configuration" + issuerPath, ec: map[string]*ecdsa.PrivateKey{}}
	i.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case i.at:
			json.NewEncoder(w).Encode(map[string]string{"issuer": i.url(), "jwks_uri": i.URL + "/keys"})
		case "/keys":
			json.NewEncoder(w).Encode(map[string]any{"keys": i.keys})
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(i.Close)
	var err error
	if i.rsa, err = oneRSA(); err != nil {
		t.Fatal(err)
	}
	_, i.ed, _ = ed25519.GenerateKey(rand.Reader)
	i.publish("RSA", kid, map[string]any{"n": b64(i.rsa.N.Bytes()), "e": "AQAB"})
	i.publish("OKP", kid, map[string]any{"crv": "Ed25519", "x": b64(i.ed.Public().(ed25519.PublicKey))})
	for alg, curve := range map[string]elliptic.Curve{"ES256": elliptic.P256(), "ES384": elliptic.P384(),
		"ES512": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		i.ec[alg] = key
		point, _ := key.PublicKey.Bytes()
		half := len(point) / 2
		i.publish("EC", kid, map[string]any{"crv": curve.Params().Name, "x": b64(point[1 : 1+half]),
			"y": b64(point[1+half:])})
	}
	return i
}

func (i *issuer) publish(kty, kid string, key map[string]any) {
	key["kty"] = kty
	if kid != "" {
		key["kid"] = kid
	}
	i.keys = append(i.keys, key)
}

func b64(raw []byte) string { return base64.RawURLEncoding.EncodeToString(raw) }

// token has good claims with changes (nil removes one); header begins with alg.
func (i *issuer) token(header map[string]any, changes map[string]any) string {
	now := time.Now().Unix()
	claims := map[string]any{"iss": i.url(), "aud": audience, "sub": "owner", "exp": now + 300, "iat": now,
		"jti": rand.Text()}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	h, _ := json.Marshal(header)
	c, _ := json.Marshal(claims)
	text := b64(h) + "." + b64(c)
	return text + "." + b64(i.sign(header["alg"].(string), text))
}

func (i *issuer) sign(alg, text string) []byte {
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[alg[len(alg)-3:]]
	var sum []byte
	if hash != 0 {
		h := hash.New()
		h.Write([]byte(text))
		sum = h.Sum(nil)
	}
	switch {
	case strings.HasPrefix(alg, "RS"):
		s, _ := rsa.SignPKCS1v15(rand.Reader, i.rsa, hash, sum)
		return s
	case strings.HasPrefix(alg, "PS"):
		s, _ := rsa.SignPSS(rand.Reader, i.rsa, hash, sum, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash})
		return s
	case strings.HasPrefix(alg, "Ed"):
		return ed25519.Sign(i.ed, []byte(text))
	}
	key := i.ec[alg]
	r, s, _ := ecdsa.Sign(rand.Reader, key, sum)
	size := (key.Params().BitSize + 7) / 8
	return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
}

// plain is a token in the form that most issuers write.
func (i *issuer) plain(changes map[string]any) string {
	return i.token(map[string]any{"alg": "ES256", "typ": "JWT"}, changes)
}

// oauth is the middleware's section: settings are flow-style YAML entries.
func (i *issuer) oauth(settings string) string {
	if !strings.Contains(settings, "audience:") {
		settings += fmt.Sprintf(", audience: %q", audience)
	}
	return fmt.Sprintf("          oauth: {issuer: %q, %s}\n", i.url(), settings)
}
