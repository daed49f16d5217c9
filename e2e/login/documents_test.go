package login_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/egress/egresstest"
	"github.com/sallyport-dev/sallyport/owner/doctor/replay"
)

// makers is the public address at which the clients' makers answer in the test's Internet.
const makers = "8.8.4.4"

// Clients that name a metadata document instead of registering (CIMD) pass through
// Traefik, the plugin and login, which fetches the document, and ChatGPT's keys, from the
// network namespace in which all of it runs. What the documents say is part of the
// clients' data: no port behind http://localhost (Claude Code), private_key_jwt (ChatGPT).
func TestClientsDocuments(t *testing.T) {
	if os.Getenv(egresstest.Inside) == "" {
		rig.NeedRoot(t)
		again := exec.Command(os.Args[0], "-test.run=^TestClientsDocuments$", "-test.v")
		again.Env, again.SysProcAttr = append(os.Environ(), egresstest.Inside+"=true"), egresstest.Namespaces()
		out, err := again.CombinedOutput()
		if again.Process == nil {
			rig.Need(t, err, "a network namespace")
		}
		if t.Log(string(out)); err != nil {
			t.Error(err)
		}
		return
	}
	web := newMakers(t)
	s := newStand(t, nil)
	fetched := 0
	for _, client := range replay.Clients() {
		seq, err := replay.Load(client)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range seq.Steps {
			if step.Document == "" {
				continue
			}
			web.serve(step.Document, step.Metadata)
			redirects, _ := step.Metadata["redirect_uris"].([]any)
			for _, redirect := range redirects {
				// On loopback another port than the document's, which names none.
				used := strings.Replace(strings.Replace(redirect.(string), "http://localhost/", "http://localhost:49152/", 1), "http://127.0.0.1/", "http://127.0.0.1:1/", 1)
				t.Run(client+" "+used, func(t *testing.T) {
					results := walk(t, s, client, s.sandbox, used, func(w *replay.Walk, _ *replay.Step) { w.Sign = web.sign })
					passed(t, results)
				})
			}
			if fetched++; web.visits(step.Document) == 0 {
				t.Errorf("%s was not fetched", step.Document)
			}
		}
	}
	if fetched != 3 || web.visits("https://chatgpt.com/oauth/jwks.json") == 0 {
		t.Errorf("%d documents, %d visits to the keys", fetched, web.visits("https://chatgpt.com/oauth/jwks.json"))
	}
	// The twin: another's key does not prove ChatGPT.
	web.key, _ = rsa.GenerateKey(rand.Reader, 2048)
	results := walk(t, s, "chatgpt", s.sandbox, "https://chatgpt.com/connector/oauth/sallyport-doctor",
		func(w *replay.Walk, _ *replay.Step) { w.Sign = web.sign })
	refused := false
	for _, r := range results {
		refused = refused || r.Stumble == "token-refused" && strings.Contains(r.Text, "invalid_client")
	}
	if !refused {
		t.Errorf("with another's key: %+v", results)
	}
}

// clientsMakers are the web servers of the clients' makers.
type clientsMakers struct {
	key *rsa.PrivateKey // signs for ChatGPT

	mu      sync.Mutex
	pages   map[string]any
	fetched map[string]int
}

func newMakers(t *testing.T) *clientsMakers {
	t.Helper()
	dir := t.TempDir()
	ca, err := egresstest.NewCA()
	if err == nil {
		err = egresstest.Setup(dir, netip.MustParseAddr(makers))
	}
	if err == nil {
		err = ca.WritePEM(filepath.Join(dir, "ca.pem"))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", filepath.Join(dir, "ca.pem"))
	dns, err := egresstest.ServeDNS()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dns.Close() })
	m := &clientsMakers{pages: map[string]any{}, fetched: map[string]int{}}
	if m.key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"claude.ai", "chatgpt.com"} {
		dns.Set(name, makers)
	}
	m.serve("https://chatgpt.com/oauth/jwks.json", map[string]any{"keys": []any{map[string]any{
		"kty": "RSA", "kid": "k1", "alg": "RS256", "use": "sig", "n": base64.RawURLEncoding.EncodeToString(m.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(m.key.E)).Bytes()),
	}}})
	l, err := net.Listen("tcp", makers+":443")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: m}
	go func() { _ = server.Serve(tls.NewListener(l, ca.Config())) }()
	t.Cleanup(func() { server.Close() })
	return m
}

// serve puts a document at its address; a client's names itself.
func (m *clientsMakers) serve(at string, page map[string]any) {
	if page["redirect_uris"] != nil {
		page["client_id"] = at
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages[at] = page
}

func (m *clientsMakers) visits(at string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fetched[at]
}

func (m *clientsMakers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := (&url.URL{Scheme: "https", Host: r.Host, Path: r.URL.Path}).String()
	m.mu.Lock()
	page, ok := m.pages[at]
	m.fetched[at]++
	m.mu.Unlock()
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

// sign makes a client assertion as ChatGPT does: RS256.
func (m *clientsMakers) sign(claims map[string]any) (string, error) {
	body, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT","kid":"k1"}`)) + "." + base64.RawURLEncoding.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, m.key, crypto.SHA256, sum[:])
	return text + "." + base64.RawURLEncoding.EncodeToString(signature), err
}
