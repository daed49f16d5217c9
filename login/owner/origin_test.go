package owner_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/sallyport-dev/sallyport/login/owner"
)

// created is a browser's answer to an offer, from a page of origin (WebAuthn, section
// 6.5.2: no attestation, ES256).
func created(t *testing.T, options, host, origin string) string {
	t.Helper()
	var offer struct {
		Challenge string `json:"challenge"`
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(options), &offer); err != nil {
		t.Fatal(err)
	}
	id, rp := []byte("0123456789abcdef"), sha256.Sum256([]byte(host))
	data := slices.Concat(rp[:], []byte{0x45}, make([]byte, 4+16), binary.BigEndian.AppendUint16(nil, uint16(len(id))), id,
		[]byte{0xa5, 1, 2, 3, 0x26, 0x20, 1, 0x21, 0x58, 32}, point[1:33], []byte{0x22, 0x58, 32}, point[33:])
	statement := slices.Concat([]byte("\xa3\x63fmt\x64none\x67attStmt\xa0\x68authData\x58"), []byte{byte(len(data))}, data)
	client := fmt.Sprintf(`{"type":"webauthn.create","challenge":%q,"origin":%q}`, offer.Challenge, origin)
	b64 := base64.RawURLEncoding.EncodeToString
	return fmt.Sprintf(`{"id":%[1]q,"rawId":%[1]q,"type":"public-key","response":{"clientDataJSON":%q,"attestationObject":%q}}`,
		b64(id), b64([]byte(client)), b64(statement))
}

// A browser leaves the usual port out of its origin, and a page on another port of the
// host is another origin.
func TestPasskeyOrigins(t *testing.T) {
	for issuer, origins := range map[string]map[string]bool{
		"https://h.example/mcp-login":      {"https://h.example": true, "https://h.example:8443": false, "http://h.example": false},
		"https://h.example:443/mcp-login":  {"https://h.example": true, "https://h.example:8443": false, "https://evil.example": false},
		"https://h.example:8443/mcp-login": {"https://h.example:8443": true, "https://h.example": false, "https://h.example:443": false},
	} {
		passkeys, err := owner.NewPasskeys(issuer, make([]byte, 32))
		if err != nil {
			t.Fatal(err)
		}
		for origin, good := range origins {
			c, err := passkeys.Offer(nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := passkeys.Accept(nil, c.State, created(t, c.Options, "h.example", origin)); (err == nil) != good {
				t.Errorf("issuer %s, a page of %s: %v", issuer, origin, err)
			}
		}
	}
}
