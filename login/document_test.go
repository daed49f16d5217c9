package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// public is an address of the test's own Internet: a network namespace in which lo has it.
const public = "8.8.4.4"

// TestDocuments runs its parts in a network namespace of its own, so that the real
// binary can fetch from public addresses. Its twins are rows that do fetch.
func TestDocuments(t *testing.T) {
	if os.Getenv("LOGIN_TEST_NAMESPACE") == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestDocuments$", "-test.v")
		cmd.Env = append(os.Environ(), "LOGIN_TEST_NAMESPACE=1", "GODEBUG=netdns=go")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && (!errorsAs(err, &exit) || exit.ExitCode() < 0) {
			t.Skipf("not on this machine: no network namespace: %v", err)
		}
		if err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	net := newInternet(t)
	r := newRig(t, nil)
	t.Run("addresses", func(t *testing.T) { net.addresses(t, r) })
	t.Run("documents", func(t *testing.T) { net.documents(t, r) })
	t.Run("swap", func(t *testing.T) { net.swap(t, r) })
	t.Run("assertions", func(t *testing.T) { net.assertions(t, r) })
	t.Run("stranger", func(t *testing.T) {
		c := &app{browser: r.browser(), id: "https://stranger.example/c.json", redirect: callback, verifier: strings.Repeat("v", 43)}
		net.set("stranger.example", public)
		c.do("GET", "/authorize?"+c.query().Encode(), nil)
		if net.count("stranger.example") != 0 {
			t.Error("something was looked up for a stranger")
		}
	})
}

func errorsAs(err error, exit **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError) //nolint:errorlint // of os/exec itself
	*exit = e
	return ok
}

func document(id string, more ...string) string {
	doc := map[string]any{"client_id": id, "client_name": "A document", "redirect_uris": []string{callback}}
	for i := 0; i < len(more); i += 2 {
		doc[more[i]] = json.RawMessage(more[i+1])
	}
	raw, _ := json.Marshal(doc)
	return string(raw)
}

func (n *internet) client(r *rig, id string) *app {
	return &app{browser: r.browser(), id: id, redirect: callback, verifier: strings.Repeat("v", 43)}
}

// addresses: a document is fetched from public addresses only, whatever leads there.
func (n *internet) addresses(t *testing.T, r *rig) {
	owner, row := r.owner(), 0
	for _, addresses := range [][]string{
		{public}, // the twin
		{"127.0.0.1"}, {"169.254.169.254"}, {"10.1.2.3"}, {"100.100.100.100"}, {"0.0.0.0"},
		{public, "127.0.0.1"}, // rebinding: one look-up, whose address is dialled
	} {
		host := fmt.Sprintf("a%d.example", row)
		row++
		id := "https://" + host + "/client.json"
		n.set(host, addresses...)
		n.page(host+"/client.json", document(id))
		page := owner.do("GET", "/authorize?"+n.client(r, id).query().Encode(), nil)
		good := addresses[0] == public
		if (page.status == 200) != good || (n.visits(host+"/client.json") > 0) != good || n.count(host) != 1 {
			t.Errorf("%v: %d, %d visits, %d look-ups", addresses, page.status, n.visits(host+"/client.json"), n.count(host))
		}
	}
	for _, id := range []string{
		"https://127.0.0.1/c", "https://2130706433/c", "https://0x7f000001/c", "https://0177.0.0.1/c", "https://127.1/c", "https://[::1]/c", "https://[::ffff:127.0.0.1]/c",
		"https://localhost/c", "https://a0.example:8443/c", "https://a0.example:443/client.json", "https://u@a0.example/client.json", "https://a0.example/client.json?x",
		"https://a0.example/client.json#x", "https://a0.example/", "https://a0.example", "http://a0.example/client.json", "https://a0.example/x/../client.json",
		"https://A0.example/client.json", "https://a0.example./client.json", "https://8.8.4.4/client.json", "https://a0.example/%2e%2e/client.json", "https://a0.example//client.json",
	} {
		before := n.visits("a0.example/client.json")
		page := owner.do("GET", "/authorize?"+n.client(r, id).query().Encode(), nil)
		if page.status != 400 || landing(page.body) != nil || n.visits("a0.example/client.json") != before {
			t.Errorf("%s: %d", id, page.status)
		}
	}
}

// documents: what they must be.
func (n *internet) documents(t *testing.T, r *rig) {
	owner := r.owner()
	n.set("doc.example", public)
	n.set("inside.example", "127.0.0.1")
	n.page("inside.example/c", document("https://doc.example/moved"))
	for path, body := range map[string]string{
		"/good": document("https://doc.example/good"), "/other": document("https://doc.example/good"), "/html": "<html>", "/broken": "{", "/big": document("https://doc.example/big", "x", `"`+strings.Repeat("x", 70000)+`"`),
		"/moved": "-> https://inside.example/c", "/moved-out": "-> https://doc.example/good", "/no-redirects": document("https://doc.example/no-redirects", "redirect_uris", "[]"),
		"/secret": document("https://doc.example/secret", "token_endpoint_auth_method", `"private_key_jwt"`), "/null": "null", "/list": "[]",
	} {
		n.page("doc.example"+path, body)
		page := owner.do("GET", "/authorize?"+n.client(r, "https://doc.example"+path).query().Encode(), nil)
		if (page.status == 200) != (path == "/good") {
			t.Errorf("%s: %d %s", path, page.status, page.body)
		}
		if path == "/good" && (!strings.Contains(page.body, "claude.example") || !strings.Contains(page.body, "https://doc.example/good")) {
			t.Errorf("the page does not show where it goes and who says so: %s", page.body)
		}
	}
	if n.visits("inside.example/c") != 0 {
		t.Error("a redirect was followed")
	}
}

// swap: what the owner saw is what counts, whatever the document says later.
func (n *internet) swap(t *testing.T, r *rig) {
	owner := r.owner()
	n.set("swap.example", public)
	id := "https://swap.example/c"
	n.page("swap.example/c", document(id))
	c := n.client(r, id)
	code, second := c.approve(owner, c.query()).Get("code"), c.approve(owner, c.query()).Get("code")
	n.page("swap.example/c", document(id, "redirect_uris", `["https://evil.example/cb"]`, "token_endpoint_auth_method", `"private_key_jwt"`, "jwks_uri", `"https://swap.example/keys"`))
	if a := c.exchange(code, "redirect_uri", "https://evil.example/cb"); a.text("error") != "invalid_grant" {
		t.Errorf("swapped: %s", a.body)
	}
	tokens := c.exchange(second)
	if tokens.status != 200 {
		t.Fatalf("the twin: %s", tokens.body)
	}
	if a := c.refresh(tokens.text("refresh_token")); a.status != 200 || n.visits("swap.example/keys") != 0 {
		t.Errorf("refresh: %s", a.body)
	}
}

// assertions: private_key_jwt as ChatGPT does it, and every way around it.
func (n *internet) assertions(t *testing.T, r *rig) {
	owner := r.owner()
	n.set("gpt.example", public)
	id := "https://gpt.example/client.json"
	set, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: n.key.Public(), KeyID: "k1", Algorithm: "RS256", Use: "sig"}}})
	n.page("gpt.example/jwks.json", string(set))
	n.page("gpt.example/client.json", document(id, "token_endpoint_auth_method", `"private_key_jwt"`, "jwks_uri", `"https://gpt.example/jwks.json"`))
	c := n.client(r, id)
	jti := 0
	proof := func(edit func(*jwt.Claims, *jose.SigningKey, *jose.SignerOptions)) string {
		jti++
		claims := jwt.Claims{Issuer: id, Subject: id, Audience: jwt.Audience{r.base + "/token"}, Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute)), ID: fmt.Sprint(jti)}
		key, o := jose.SigningKey{Algorithm: jose.RS256, Key: n.key}, (&jose.SignerOptions{}).WithHeader("kid", "k1")
		if edit != nil {
			edit(&claims, &key, o)
		}
		signer, err := jose.NewSigner(key, o)
		check(t, err)
		text, err := jwt.Signed(signer).Claims(claims).Serialize()
		check(t, err)
		return text
	}
	send := func(text string, pairs ...string) *reply {
		code := c.approve(owner, c.query()).Get("code")
		return c.exchange(code, append([]string{"client_assertion", text, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, pairs...)...)
	}
	good := proof(nil)
	tokens := send(good)
	if tokens.status != 200 {
		t.Fatalf("the twin: %s", tokens.body)
	}
	other, _ := rsa.GenerateKey(rand.Reader, 2048)
	elsewhere, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	pub := x509.MarshalPKCS1PublicKey(n.key.Public().(*rsa.PublicKey))
	for name, text := range map[string]string{
		"none": "", "used before": good, "unsigned": unsigned(good), "cut": good[:len(good)-4],
		"HMAC with the public key": proof(func(_ *jwt.Claims, k *jose.SigningKey, _ *jose.SignerOptions) {
			*k = jose.SigningKey{Algorithm: jose.HS256, Key: pub}
		}),
		"another key": proof(func(_ *jwt.Claims, k *jose.SigningKey, _ *jose.SignerOptions) { k.Key = other }),
		"another type of key": proof(func(_ *jwt.Claims, k *jose.SigningKey, _ *jose.SignerOptions) {
			*k = jose.SigningKey{Algorithm: jose.ES256, Key: elsewhere}
		}),
		"PS256": proof(func(_ *jwt.Claims, k *jose.SigningKey, _ *jose.SignerOptions) { k.Algorithm = jose.PS256 }),
		"kid injection": proof(func(_ *jwt.Claims, k *jose.SigningKey, o *jose.SignerOptions) {
			k.Key = other
			o.WithHeader("kid", "../../k1")
		}),
		"jku": proof(func(_ *jwt.Claims, k *jose.SigningKey, o *jose.SignerOptions) {
			k.Key = other
			o.WithHeader("jku", "https://evil.example/keys").WithHeader("kid", "evil")
		}),
		"embedded jwk": proof(func(_ *jwt.Claims, k *jose.SigningKey, o *jose.SignerOptions) { k.Key = other; o.EmbedJWK = true }),
		"another aud": proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) {
			c.Audience = jwt.Audience{"https://evil.example/token"}
		}),
		"no aud":      proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) { c.Audience = nil }),
		"another sub": proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) { c.Subject = "https://evil.example/c" }),
		"another iss": proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) { c.Issuer = "https://evil.example/c" }),
		"expired": proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) {
			c.Expiry = jwt.NewNumericDate(time.Now().Add(-2 * time.Minute))
		}),
		"no exp": proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) { c.Expiry = nil }),
		"far exp": proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) {
			c.Expiry = jwt.NewNumericDate(time.Now().Add(3 * time.Hour))
		}),
		"not yet": proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) {
			c.NotBefore = jwt.NewNumericDate(time.Now().Add(5 * time.Minute))
		}),
		"no jti": proof(func(c *jwt.Claims, _ *jose.SigningKey, _ *jose.SignerOptions) { c.ID = "" }),
	} {
		a := send(text)
		if text == "" {
			a = send("", "client_assertion_type", "")
		}
		if a.status != 401 || a.text("error") != "invalid_client" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if n.visits("evil.example/keys") != 0 {
		t.Error("jku was fetched")
	}
	// The refresh needs it too, also with no client_id, and across a restart a jti stays used.
	renew := func(text string) *reply {
		return c.do("POST", "/token", url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {tokens.text("refresh_token")}, "client_assertion": {text},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		})
	}
	if a := c.refresh(tokens.text("refresh_token")); a.status != 401 {
		t.Errorf("refresh without: %s", a.body)
	}
	r.kill()
	r.start()
	if a := renew(good); a.status != 401 {
		t.Errorf("used before the restart: %s", a.body)
	}
	if a := renew(proof(nil)); a.status != 200 {
		t.Errorf("refresh: %s", a.body)
	}
	// The plural list may offer none as well.
	n.page("gpt.example/both.json", document("https://gpt.example/both.json", "token_endpoint_auth_method", `"private_key_jwt"`,
		"token_endpoint_auth_methods_supported", `["none","private_key_jwt"]`, "jwks_uri", `"https://gpt.example/jwks.json"`))
	both := n.client(r, "https://gpt.example/both.json")
	both.connect(r.owner())
	// A key set that cannot be had, or that is none of public keys, lets nobody in.
	n.set("poison.example", public)
	symmetric, _ := json.Marshal(map[string]any{"keys": []any{map[string]any{"kty": "oct", "kid": "k1", "k": base64.RawURLEncoding.EncodeToString(pub)}}})
	private, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: n.key, KeyID: "k1"}}})
	for name, keys := range map[string]string{"symmetric": string(symmetric), "private": string(private), "empty": `{"keys":[]}`, "moved": "-> https://gpt.example/jwks.json", "html": "<"} {
		at := "poison.example/" + name
		n.page(at+"/keys", keys)
		id = "https://" + at
		n.page(at, document(id, "token_endpoint_auth_method", `"private_key_jwt"`, "jwks_uri", `"https://`+at+`/keys"`))
		c = n.client(r, id)
		owner = r.owner()
		if a := send(proof(nil)); a.status != 401 {
			t.Errorf("%s keys: %d %s", name, a.status, a.body)
		}
	}
}

// unsigned is a token with its algorithm changed to none.
func unsigned(token string) string {
	parts := strings.Split(token, ".")
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + "."
}
