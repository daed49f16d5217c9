package store

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/go-webauthn/webauthn/webauthn"
)

// RevokedFor is how long the list names a withdrawn grant: twice the life of an access
// token. MaxGrants bounds what can be connected at once.
const (
	RevokedFor = 10 * time.Minute
	MaxGrants  = 1000
)

// State is what the owner decided, what follows from it, and login's own secrets.
type State struct {
	Version    int
	Secret     []byte       // of the HMACs of refresh tokens and cookies
	Signing    []SigningKey // oldest first
	Password   string       // argon2id, in PHC form
	Passkeys   []Passkey
	Clients    map[string]*Client // registered by themselves
	Grants     map[string]*Grant
	Revoked    map[string]time.Time // grants withdrawn within RevokedFor
	Assertions map[string]time.Time // used client assertions, and until when to know them
}

// Passkey is one WebAuthn credential of the owner.
type Passkey struct {
	Name       string
	Created    time.Time
	Credential webauthn.Credential
}

// Client is what is known of a client.
type Client struct {
	ID, Name  string
	Redirects []string
	Methods   []string // none, private_key_jwt
	JWKS      []byte   `json:",omitempty"`
	JWKSURI   string   `json:",omitempty"`
	Source    string   // registration, document or file
	Created   time.Time
	Approved  bool `json:",omitempty"` // once: such a registration is never dropped
}

// Grant is one consent of the owner's: what one client may do, until when.
type Grant struct {
	ID                        string
	Client                    Client // as it was when the owner agreed
	Redirect, Resource, Scope string
	Tools, Egress             []string
	Created, Expires          time.Time
	LastUsed                  time.Time
	Generation                uint64    // of the refresh token that is valid
	Rotated                   time.Time // when that one was made
	Grace                     int       // how often its predecessor came once more
}

// SigningKey is one ES256 key.
type SigningKey struct {
	ID      string
	Private []byte // the scalar, SEC 1
	Created time.Time
}

// Key parses the private key.
func (k SigningKey) Key() (*ecdsa.PrivateKey, error) {
	return ecdsa.ParseRawPrivateKey(elliptic.P256(), k.Private)
}

var grantID = regexp.MustCompile(`^[A-Za-z0-9]{1,64}$`)

func newState() State {
	return State{
		Secret: []byte(rand.Text() + rand.Text()), Clients: map[string]*Client{}, Grants: map[string]*Grant{},
		Revoked: map[string]time.Time{}, Assertions: map[string]time.Time{},
	}
}

// adopt makes ids of the list that the state does not know stay revoked.
func (s *State) adopt(listed []string, now time.Time) {
	for _, id := range listed {
		if _, known := s.Revoked[id]; !known && grantID.MatchString(id) {
			s.Revoked[id] = now
		}
	}
}

// How signing keys follow each other. A new one is published for an hour before it
// signs, longer than the edge keeps what it fetched (15 minutes); the old one stays
// published for a day after, as long as the edge believes an issuer that is down.
const (
	KeyLife    = 30 * 24 * time.Hour
	KeyAhead   = time.Hour
	KeyOverlap = 24 * time.Hour
)

// Tidy drops what time has made void, brings the keys to what they have to be, and
// returns ErrUnchanged where that was nothing.
func (s *State) Tidy(now time.Time) error {
	size := func() int { return len(s.Grants) + len(s.Revoked) + len(s.Assertions) + len(s.Signing) }
	before := size()
	maps.DeleteFunc(s.Grants, func(_ string, g *Grant) bool { return now.After(g.Expires) })
	maps.DeleteFunc(s.Revoked, func(_ string, at time.Time) bool { return now.Sub(at) > RevokedFor })
	maps.DeleteFunc(s.Assertions, func(_ string, until time.Time) bool { return now.After(until) })
	if len(s.Signing) > 1 && now.Sub(s.Signing[1].Created) > KeyAhead+KeyOverlap {
		s.Signing = slices.Clone(s.Signing[1:])
	}
	if n := len(s.Signing); n == 0 || now.Sub(s.Signing[n-1].Created) > KeyLife {
		private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			return err
		}
		raw, err := private.Bytes()
		s.Signing = append(s.Signing, SigningKey{rand.Text(), raw, now})
		return err
	}
	if size() == before {
		return ErrUnchanged
	}
	return nil
}

// Signer is the key that signs at now: the newest that has been published for an hour,
// or the oldest.
func (s *State) Signer(now time.Time) (key SigningKey) {
	for i, k := range s.Signing {
		if i == 0 || now.Sub(k.Created) >= KeyAhead {
			key = k
		}
	}
	return key
}

// Revoke withdraws a grant, also one that is only about to be made.
func (s *State) Revoke(id string, now time.Time) {
	delete(s.Grants, id)
	s.Revoked[id] = now
}

// Sorted lists copies of the grants, the one last used first.
func (s *State) Sorted() (list []Grant) {
	for _, g := range s.Grants {
		list = append(list, *g)
	}
	slices.SortFunc(list, func(a, b Grant) int { return b.LastUsed.Compare(a.LastUsed) })
	return list
}
