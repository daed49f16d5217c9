package web

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/login/store"
)

// record is an audit whose disk may be full.
type record struct {
	strings.Builder
	full bool
}

func (r *record) Write(p []byte) (int, error) {
	if r.full {
		return 0, errors.New("no space left on device")
	}
	return r.Builder.Write(p)
}

// That a passkey is removed is on the record, as that one was added is; where it cannot
// be recorded, the passkey stays.
func TestRemovedPasskeyIsRecorded(t *testing.T) {
	s := site(t)
	set(t, s, oldPassword)
	err := s.Store.Update(func(st *store.State) error {
		for _, id := range []string{"one", "two"} {
			st.Passkeys = append(st.Passkeys, store.Passkey{Name: id, Credential: webauthn.Credential{ID: []byte(id)}})
		}
		return nil
	})
	records := &record{}
	if err == nil {
		s.Audit, err = audit.Open(audit.Options{File: "-", Stdout: records})
	}
	if err != nil {
		t.Fatal(err)
	}
	cookie := signedIn(send(s, "/sign-in", "", url.Values{"password": {oldPassword}}))
	page := csrf.FindStringSubmatch(send(s, "/", cookie, nil).Body.String())
	remove := func(key store.Passkey) int {
		send(s, "/change", cookie, url.Values{"csrf": {page[1]}, "what": {"forget"}, "passkey": {passkeyID(key)}})
		_, have := s.Store.Proofs()
		return len(have)
	}
	_, have := s.Store.Proofs()
	if left := remove(store.Passkey{Credential: webauthn.Credential{ID: []byte("one")}}); left != 1 || strings.Count(records.String(), "passkey_removed") != 1 {
		t.Errorf("of %d passkeys %d are left; the record: %s", len(have), left, records.String())
	}
	records.full = true
	if left := remove(store.Passkey{Credential: webauthn.Credential{ID: []byte("two")}}); left != 1 {
		t.Error("a passkey was removed without a record")
	}
}
