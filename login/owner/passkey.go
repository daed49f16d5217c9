package owner

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"github.com/sallyport-dev/sallyport/login/store"
)

// ceremonyLife is how long the owner may take to touch the authenticator. MaxPasskeys
// is how many can be registered.
const (
	ceremonyLife = 5 * time.Minute
	MaxPasskeys  = 20
)

// Passkeys runs WebAuthn's two ceremonies. A challenge is kept by nobody: it comes back
// signed, so that strangers who ask for many cannot push out the owner's.
type Passkeys struct {
	web *webauthn.WebAuthn
	key []byte

	mu   sync.Mutex
	used map[string]time.Time // challenges that were answered
}

// NewPasskeys is for the issuer's host. It is nil on an IP address: WebAuthn wants a name.
func NewPasskeys(issuer string, key []byte) (*Passkeys, error) {
	u, err := url.Parse(issuer)
	if err != nil || net.ParseIP(u.Hostname()) != nil {
		return nil, err
	}
	web, err := webauthn.New(&webauthn.Config{
		RPID: u.Hostname(), RPDisplayName: "Sallyport", RPOrigins: []string{u.Scheme + "://" + u.Host},
		AttestationPreference: protocol.PreferNoAttestation,
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementRequired, UserVerification: protocol.VerificationRequired,
		},
	})
	return &Passkeys{web: web, key: key, used: map[string]time.Time{}}, err
}

// person is the owner, as the library wants a user.
type person []store.Passkey

func (person) WebAuthnID() []byte          { return []byte("sallyport-owner") }
func (person) WebAuthnName() string        { return "owner" }
func (person) WebAuthnDisplayName() string { return "Owner" }

func (p person) WebAuthnCredentials() (all []webauthn.Credential) {
	for _, k := range p {
		all = append(all, k.Credential)
	}
	return all
}

// Ceremony is what a page needs for one: options for the browser, and the state that
// comes back with its answer.
type Ceremony struct{ Options, State string }

// Ask begins a sign-in.
func (p *Passkeys) Ask() (*Ceremony, error) {
	asked, session, err := p.web.BeginDiscoverableLogin(webauthn.WithUserVerification(protocol.VerificationRequired))
	if err != nil {
		return nil, err
	}
	return p.seal("ask", asked.Response, session)
}

// Offer begins the registration of one more passkey.
func (p *Passkeys) Offer(have []store.Passkey) (*Ceremony, error) {
	known := webauthn.Credentials(person(have).WebAuthnCredentials()).CredentialDescriptors()
	creation, session, err := p.web.BeginRegistration(person(have), webauthn.WithExclusions(known))
	if err != nil {
		return nil, err
	}
	return p.seal("offer", creation.Response, session)
}

func (p *Passkeys) seal(purpose string, options any, session *webauthn.SessionData) (*Ceremony, error) {
	session.Expires = time.Now().Add(ceremonyLife)
	state, err := json.Marshal(session)
	raw, wrong := json.Marshal(options)
	return &Ceremony{string(raw), Sign(p.key, purpose, string(state))}, errors.Join(err, wrong)
}

var errPage = errors.New("this answer is not readable, came before, or its page is too old: open the page again")

// opened returns the session of a state that was sealed here.
func (p *Passkeys) opened(purpose, state string) (s webauthn.SessionData, ok bool) {
	err := json.Unmarshal([]byte(Opened(p.key, purpose, state)), &s)
	return s, err == nil && time.Now().Before(s.Expires)
}

// once marks the challenge of a right answer as used.
func (p *Passkeys) once(s webauthn.SessionData) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.used, func(_ string, until time.Time) bool { return time.Now().After(until) })
	if _, again := p.used[s.Challenge]; again {
		return errPage
	}
	p.used[s.Challenge] = s.Expires
	return nil
}

// Check finishes a sign-in and returns the credential as it is now.
func (p *Passkeys) Check(have []store.Passkey, state, answer string) (*webauthn.Credential, error) {
	parsed, err := protocol.ParseCredentialRequestResponseBytes([]byte(answer))
	s, ok := p.opened("ask", state)
	if err != nil || !ok {
		return nil, errPage
	}
	find := func(_, handle []byte) (webauthn.User, error) {
		if !bytes.Equal(handle, person{}.WebAuthnID()) {
			return nil, errors.New("another user's passkey")
		}
		return person(have), nil
	}
	_, credential, err := p.web.ValidatePasskeyLogin(find, s, parsed)
	if err != nil {
		return nil, errors.New("this passkey is not the owner's")
	}
	if credential.Authenticator.CloneWarning {
		return nil, errors.New("this passkey seems to have been copied: its counter went back")
	}
	return credential, p.once(s)
}

// Accept finishes a registration.
func (p *Passkeys) Accept(have []store.Passkey, state, answer string) (*webauthn.Credential, error) {
	parsed, err := protocol.ParseCredentialCreationResponseBytes([]byte(answer))
	s, ok := p.opened("offer", state)
	if err != nil || !ok {
		return nil, errPage
	}
	credential, err := p.web.CreateCredential(person(have), s, parsed)
	if err != nil {
		return nil, errors.New("the browser's answer is not valid: try again")
	}
	return credential, p.once(s)
}
