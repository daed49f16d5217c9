package issue

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

const resource = "https://host.example/mcp-oauth/sandbox/mcp"

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.at }
func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func open(t *testing.T, dir string, c *clock) *Issuer {
	t.Helper()
	kept, err := store.Open(filepath.Join(dir, "state"), filepath.Join(dir, "revoked", "revoked"), func(line string) { t.Error(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	config := &settings.Config{Issuer: "https://host.example/mcp-login", Subject: "owner", Resources: []settings.Resource{
		{URL: resource, Grants: []string{"read_file", "run_command"}}, {URL: "https://host.example/mcp-oauth/hub/", Grants: []string{"*"}},
	}}
	i := &Issuer{Config: config, Store: kept, Fetch: client.NewFetcher(), Now: c.now}
	if err := i.Tidy(); err != nil {
		t.Fatal(err)
	}
	return i
}

var app = store.Client{ID: "app", Redirects: []string{"https://app.example/cb"}, Methods: []string{client.None}}

const verifier = "vvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvvv"

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func payload(token string) string {
	raw, _ := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	return string(raw)
}

func approve(t *testing.T, i *Issuer) string {
	t.Helper()
	code, err := i.Approve(Approval{store.Grant{
		Client: app, Redirect: app.Redirects[0], Resource: resource, Scope: "mcp", Tools: []string{"read_file"}, Expires: i.Now().Add(24 * time.Hour),
	}, challengeOf(verifier)})
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func connect(t *testing.T, i *Issuer) *Tokens {
	t.Helper()
	tokens, err := i.Exchange(context.Background(), Proof{ClientID: "app"}, approve(t, i), "", verifier, "")
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func refreshWith(i *Issuer, token string) (*Tokens, error) {
	return i.Refresh(context.Background(), Proof{ClientID: "app"}, token, "")
}

func isError(err error, code string) bool {
	var known *client.Error
	return errors.As(err, &known) && known.Code == code
}

// Within the grace the predecessor gives the same successor, three times and across a
// restart; after it, it takes the grant back, and only that.
func TestGrace(t *testing.T) {
	dir, c := t.TempDir(), &clock{at: time.Now()}
	i := open(t, dir, c)
	first, other := connect(t, i), connect(t, i)
	second, err := refreshWith(i, first.Refresh)
	if err != nil || second.Refresh == first.Refresh {
		t.Fatal("the twin:", err)
	}
	for n := range MaxGrace {
		c.add(15 * time.Second)
		if n == 1 { // a restart
			i.Store.Close()
			i = open(t, dir, c)
		}
		again, err := refreshWith(i, first.Refresh)
		if err != nil || again.Refresh != second.Refresh {
			t.Fatalf("repeat %d: %v", n, err)
		}
	}
	if _, err := refreshWith(i, first.Refresh); !isError(err, "invalid_grant") {
		t.Errorf("repeat 4: %v", err)
	}
	third, err := refreshWith(i, second.Refresh)
	if err != nil {
		t.Fatal("a repeat too many took the grant back:", err)
	}
	c.add(Grace + time.Second)
	if _, err := refreshWith(i, second.Refresh); !isError(err, "invalid_grant") {
		t.Errorf("after the grace: %v", err)
	}
	if _, err := refreshWith(i, third.Refresh); !isError(err, "invalid_grant") {
		t.Errorf("reuse left the grant: %v", err)
	}
	if _, err := refreshWith(i, other.Refresh); err != nil {
		t.Errorf("reuse took another grant: %v", err)
	}
	list, err := os.ReadFile(filepath.Join(dir, "revoked", "revoked"))
	if err != nil || strings.Count(string(list), "\n") != 1 {
		t.Errorf("the edge's list: %q %v", list, err)
	}
}

// The token before the predecessor takes the grant back, also at once.
func TestOlderGeneration(t *testing.T) {
	i := open(t, t.TempDir(), &clock{at: time.Now()})
	first := connect(t, i)
	second, _ := refreshWith(i, first.Refresh)
	third, err := refreshWith(i, second.Refresh)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := refreshWith(i, first.Refresh); !isError(err, "invalid_grant") {
		t.Errorf("two generations back: %v", err)
	}
	if _, err := refreshWith(i, third.Refresh); err == nil {
		t.Error("the grant is still there")
	}
}

// Guessing does not take anything back: who knows only the grant's id is no holder.
func TestForgedRefresh(t *testing.T) {
	i := open(t, t.TempDir(), &clock{at: time.Now()})
	tokens := connect(t, i)
	for _, forged := range []string{
		"", "spr", tokens.Refresh + "x", tokens.Refresh[:len(tokens.Refresh)-1], strings.Replace(tokens.Refresh, ".1.", ".2.", 1),
		strings.Replace(tokens.Refresh, ".1.", ".0.", 1), strings.Replace(tokens.Refresh, ".1.", ".01.", 1), "." + tokens.Refresh,
	} {
		if _, err := refreshWith(i, forged); !isError(err, "invalid_grant") {
			t.Errorf("%q: %v", forged, err)
		}
	}
	if _, err := i.Refresh(context.Background(), Proof{ClientID: "another"}, tokens.Refresh, ""); !isError(err, "invalid_grant") {
		t.Errorf("another client: %v", err)
	}
	if _, err := i.Refresh(context.Background(), Proof{ClientID: "app"}, tokens.Refresh, "https://host.example/mcp-oauth/hub/hub/mcp"); !isError(err, "invalid_target") {
		t.Errorf("another resource: %v", err)
	}
	if _, err := refreshWith(i, tokens.Refresh); err != nil {
		t.Errorf("the twin: %v", err)
	}
}

// Two connections that refresh at once get the same successor.
func TestRefreshAtOnce(t *testing.T) {
	i := open(t, t.TempDir(), &clock{at: time.Now()})
	for range 20 {
		tokens := connect(t, i)
		var got [3]string
		var all sync.WaitGroup
		for n := range got {
			all.Go(func() {
				if next, err := refreshWith(i, tokens.Refresh); err == nil {
					got[n] = next.Refresh
				}
			})
		}
		all.Wait()
		if got[0] == "" || got[0] != got[1] || got[1] != got[2] {
			t.Fatalf("%q", got)
		}
	}
}

// A code that is redeemed at once by many gives tokens to at most one, and they do not
// outlive that.
func TestCodeAtOnce(t *testing.T) {
	i := open(t, t.TempDir(), &clock{at: time.Now()})
	for range 50 {
		code := approve(t, i)
		var mu sync.Mutex
		var got []*Tokens
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if tokens, err := i.Exchange(context.Background(), Proof{ClientID: "app"}, code, "", verifier, ""); err == nil {
					mu.Lock()
					got = append(got, tokens)
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(got) > 1 {
			t.Fatalf("%d times", len(got))
		}
		for _, tokens := range got {
			if _, err := refreshWith(i, tokens.Refresh); err == nil {
				t.Fatal("a code that was used twice left a grant")
			}
		}
	}
}

// What ends: codes after a minute, grants when the owner said, tokens with them, the
// edge's list after ten minutes.
func TestTimes(t *testing.T) {
	dir, c := t.TempDir(), &clock{at: time.Now()}
	i := open(t, dir, c)
	code := approve(t, i)
	c.add(CodeLife + time.Second)
	if _, err := i.Exchange(context.Background(), Proof{ClientID: "app"}, code, "", verifier, ""); !isError(err, "invalid_grant") {
		t.Errorf("an old code: %v", err)
	}
	tokens := connect(t, i)
	c.add(24*time.Hour - time.Minute)
	last, err := refreshWith(i, tokens.Refresh)
	if err != nil || last.Expires > 60 {
		t.Errorf("a minute before the end: %+v %v", last, err)
	}
	c.add(time.Minute + time.Second)
	if _, err := refreshWith(i, last.Refresh); !isError(err, "invalid_grant") {
		t.Errorf("after the end: %v", err)
	}
	g := grant(t, i, connect(t, i))
	if found, err := i.Withdraw(g, "test"); !found || err != nil {
		t.Fatal(found, err)
	}
	listed := func() bool {
		list, _ := os.ReadFile(filepath.Join(dir, "revoked", "revoked"))
		return strings.Contains(string(list), g)
	}
	c.add(store.RevokedFor - time.Second)
	if err := i.Tidy(); err != nil || !listed() {
		t.Error("not listed before its time", err)
	}
	c.add(2 * time.Second)
	if err := i.Tidy(); err != nil || listed() {
		t.Error("still listed", err)
	}
}

func grant(t *testing.T, i *Issuer, tokens *Tokens) string {
	t.Helper()
	g, _, ok := i.grantOfRefresh(tokens.Refresh)
	if !ok {
		t.Fatal("no grant")
	}
	return g.ID
}

// Keys follow each other with overlap: a token is always signed by a key that has been
// published for an hour, or was the only one, and stays checkable while it lives.
func TestKeyRotation(t *testing.T) {
	c := &clock{at: time.Now()}
	i := open(t, t.TempDir(), c)
	published := map[string]time.Time{}
	kids := map[string]bool{}
	begin := c.now()
	for c.now().Sub(begin) < 70*24*time.Hour {
		if err := i.Tidy(); err != nil {
			t.Fatal(err)
		}
		set := i.PublicKeys()
		for _, k := range set.Keys {
			if _, known := published[k.KeyID]; !known {
				published[k.KeyID] = c.now()
			}
		}
		var key store.SigningKey
		i.Store.View(func(s *store.State) { key = s.Signer(c.now()) })
		if len(set.Key(key.ID)) != 1 {
			t.Fatal("signed by a key that is not published")
		}
		if age := c.now().Sub(published[key.ID]); len(kids) > 0 && !kids[key.ID] && age < store.KeyAhead {
			t.Fatalf("a key signs after %v", age)
		}
		kids[key.ID] = true
		c.add(17 * time.Minute)
	}
	if len(kids) < 3 {
		t.Errorf("%d keys in 70 days", len(kids))
	}
}

// Claims only narrow: what login.json no longer offers is in no new token.
func TestCut(t *testing.T) {
	i := open(t, t.TempDir(), &clock{at: time.Now()})
	tokens := connect(t, i)
	i.Config.Resources[0].Grants = []string{"run_command"}
	next, err := refreshWith(i, tokens.Refresh)
	if err != nil || len(next.Access) == 0 {
		t.Fatal(err)
	}
	if g, ok := i.grantOfAccess(next.Access); !ok || len(g.Tools) != 1 {
		t.Error("the grant itself was changed")
	}
	if strings.Contains(payload(next.Access), "read_file") || !strings.Contains(payload(tokens.Access), "read_file") {
		t.Error("the claim was not cut, or the twin had none")
	}
	i.Config.Resources = i.Config.Resources[1:]
	if _, err := refreshWith(i, next.Refresh); !isError(err, "invalid_target") {
		t.Errorf("a resource that is gone: %v", err)
	}
}
