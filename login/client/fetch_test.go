package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/sallyport-dev/sallyport/login/store"
)

// What is fetched for a client is not written into what the state keeps of it, which
// others read meanwhile: a client may send keys of no use beside its address of keys.
func TestFetchedKeysStayApart(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "k", Algorithm: "ES256"}}})
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(set)
	}))
	t.Cleanup(srv.Close)
	useless := `{"keys":[],"x":"` + strings.Repeat("x", 1000) + `"}`
	body := `{"redirect_uris":["https://app.example/cb"],"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"` + srv.URL + `/keys","jwks":` + useless + `}`
	c, err := Register([]byte(body), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	proof, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: c.ID, Subject: c.ID, Audience: jwt.Audience{"https://host.example"},
		Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute)), ID: "1"}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	f := &Fetcher{client: srv.Client(), room: make(chan struct{}, maxFetches)}
	kept := store.Grant{Client: *c}
	var all sync.WaitGroup
	for range maxFetches {
		all.Go(func() {
			if _, err := f.Verify(t.Context(), &kept.Client, proof, "https://host.example", time.Now()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if string(c.JWKS) != useless {
		t.Errorf("the state's copy is %.100s", c.JWKS)
	}
}
