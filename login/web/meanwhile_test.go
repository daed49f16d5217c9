package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/issue"
	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

const oldPassword, newPassword = "the password of before", "the password of now"

// site is login's pages without a network.
func site(t *testing.T) *Server { return siteAt(t, time.Now) }

func siteAt(t *testing.T, now func() time.Time) *Server {
	t.Helper()
	dir := t.TempDir()
	kept, err := store.Open(filepath.Join(dir, "state"), filepath.Join(dir, "revoked", "revoked"), func(line string) { t.Error(line) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { kept.Close() })
	i := &issue.Issuer{Config: &settings.Config{Issuer: "https://host.example/mcp-login", Base: "/mcp-login", Subject: "owner"}, Store: kept, Fetch: client.NewFetcher(), Now: now}
	s, err := New(i, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// set changes the password as sallyport-login password does.
func set(t *testing.T, s *Server, password string) {
	t.Helper()
	hash, err := owner.HashPassword(password)
	if err == nil {
		err = s.Store.Update(func(st *store.State) error { st.Password = hash; return nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	s.SignOut()
}

// send posts a form, or gets a page without one.
func send(s *Server, to, cookie string, form url.Values) *httptest.ResponseRecorder {
	method := http.MethodPost
	if form == nil {
		method = http.MethodGet
	}
	r := httptest.NewRequest(method, "https://host.example/mcp-login"+to, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", formType)
	r.Header.Set("Cookie", cookie)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func signedIn(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		if strings.HasSuffix(c.Name, "session") && w.Code == http.StatusSeeOther {
			return c.Name + "=" + c.Value
		}
	}
	return ""
}

var csrf = regexp.MustCompile(`name="csrf" value="([^"]*)"`)

// A guess that waits for its turn while the owner changes the password is compared with
// the new one, whether it signs in or would change the password itself.
func TestPasswordChangedMeanwhile(t *testing.T) {
	for _, changed := range []bool{false, true} { // the first is the twin
		synctest.Test(t, func(t *testing.T) {
			s := site(t)
			set(t, s, oldPassword)
			cookie := signedIn(send(s, "/sign-in", "", url.Values{"password": {oldPassword}}))
			page := csrf.FindStringSubmatch(send(s, "/", cookie, nil).Body.String())
			if cookie == "" || page == nil {
				t.Fatal("not signed in")
			}
			for range 2 { // from now on guesses wait
				send(s, "/sign-in", "", url.Values{"password": {"a wrong guess"}})
			}
			codes := make(chan int, 2)
			go func() {
				codes <- send(s, "/sign-in", "", url.Values{"password": {oldPassword}}).Code
			}()
			go func() {
				codes <- send(s, "/change", cookie, url.Values{"csrf": {page[1]}, "what": {"password"}, "password": {oldPassword}, "new": {"the password of a thief"}}).Code
			}()
			synctest.Wait() // both wait for their turn
			if changed {
				set(t, s, newPassword)
			}
			before, _ := s.Store.Proofs()
			for range 2 {
				if code := <-codes; (code == http.StatusForbidden) != changed {
					t.Errorf("changed meanwhile %v: %d", changed, code)
				}
			}
			if after, _ := s.Store.Proofs(); (after == before) != changed {
				t.Errorf("changed meanwhile %v: another password is in force", changed)
			}
		})
	}
}

// Nor is anybody signed in whose password was right, and was changed before the session
// began. The twin is signed in.
func TestPasswordChangedBeforeTheSession(t *testing.T) {
	for _, changed := range []bool{false, true} {
		var s *Server
		looks := 0
		s = siteAt(t, func() time.Time {
			if looks++; looks == 2 && changed { // the guess has looked once; now a session begins
				set(t, s, newPassword)
			}
			return time.Now()
		})
		set(t, s, oldPassword)
		looks = 0
		cookie := signedIn(send(s, "/sign-in", "", url.Values{"password": {oldPassword}}))
		if in := csrf.MatchString(send(s, "/", cookie, nil).Body.String()); in == changed || cookie == "" {
			t.Errorf("changed before the session %v: signed in %v", changed, in)
		}
	}
}

// A request that has proved the owner by the password of before keeps nothing once that
// has been changed.
func TestProofOfBeforeKeepsNothing(t *testing.T) {
	s := site(t)
	set(t, s, oldPassword)
	was, _ := s.Store.Proofs()
	keep := func() error {
		return s.own(&owner.Session{}, was, "password_set", func(st *store.State) { st.Password = "a thief's" })
	}
	set(t, s, newPassword)
	if err := keep(); err == nil {
		t.Error("the password was changed by who knew the one of before")
	}
	was, _ = s.Store.Proofs()
	if err := keep(); err != nil {
		t.Errorf("twin: %v", err)
	}
}
