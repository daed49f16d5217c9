package plugin

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"time"
)

// claims is what is used of a verified token.
type claims struct {
	principal string
	scopes    []string
	until     time.Time // when it must be verified again
}

// leeway is allowed between the issuer's clock and ours.
const leeway = 60 * time.Second

// jwt is a token (RFC 7515, compact form) of which only the header is parsed:
// claims are read of a token that one of the issuer's keys has signed, and of no
// other while its key is known. Interpreted code runs for each claim, and a
// forged token must cost next to nothing.
type jwt struct {
	alg, kid  string
	payload   string
	signed    []byte
	signature []byte
}

// maxHeader bounds the header of a JWT, in bytes of its Base64.
const maxHeader = 4 << 10

// algorithms are the signatures that are accepted, with the key type of each.
// There is no HMAC, so a public key can never serve as a secret, and no "none".
var algorithms = map[string]string{"RS256": "RSA", "PS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}

// parseJWT reads a token's header strictly: exact keys, no duplicates, canonical
// Base64. It returns nil for anything else.
func parseJWT(raw string) *jwt {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 || len(parts[0]) > maxHeader {
		return nil
	}
	header := jsonPart(parts[0])
	t := &jwt{payload: parts[1], signed: []byte(parts[0] + "." + parts[1]), signature: base64Part(parts[2])}
	if header == nil || len(t.signature) == 0 || header["crit"] != nil || header["b64"] != nil {
		return nil
	}
	t.alg, _ = text(header["alg"])
	var named bool
	t.kid, named = text(header["kid"])
	if algorithms[t.alg] == "" || (header["kid"] != nil && !named) {
		return nil
	}
	return t
}

// base64Part returns nil for what is not canonical. The decoder would skip line
// ends.
func base64Part(part string) []byte {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(part)
	if err != nil || strings.ContainsAny(part, "\r\n") {
		return nil
	}
	return raw
}

func jsonPart(part string) map[string]json.RawMessage {
	fields, wrong := members(base64Part(part))
	if wrong != "" {
		return nil
	}
	return fields
}

const keysUnavailable = "the issuer's keys cannot be had now"

const notSigned = "the token is not signed with a key of the issuer"

// verify checks a token's signature and claims. The second result says what is
// wrong. With a known key the signature comes first. Without one the claims do:
// a token of someone else must not make us fetch keys.
func verify(c *call, is *issuer, raw string) (*claims, string) {
	t := parseJWT(raw)
	if t == nil {
		return nil, "the token is not a JWT signed with RS256, PS256, ES256 or EdDSA"
	}
	found, fresh := freshKeys(c, is, t)
	if fresh && !signedByOne(t, found) {
		return nil, notSigned
	}
	fields := jsonPart(t.payload)
	if fields == nil {
		return nil, "the token's claims are not one JSON object of at most 256 members"
	}
	cl, why := checkClaims(is, fields, c.start)
	if why != "" || fresh {
		return cl, why
	}
	found, ready := findKeys(c, is, t)
	if !ready {
		return nil, keysUnavailable
	}
	if !signedByOne(t, found) {
		return nil, notSigned
	}
	return cl, ""
}

func signedByOne(t *jwt, keys []*key) bool {
	for _, k := range keys {
		if goodSignature(t, k.Public) {
			return true
		}
	}
	return false
}

// goodSignature: the key's type was matched with the algorithm by candidates.
func goodSignature(t *jwt, public crypto.PublicKey) bool {
	hash := sha256.Sum256(t.signed)
	sum := hash[:]
	switch k := public.(type) {
	case *rsa.PublicKey:
		if t.alg == "RS256" {
			return rsa.VerifyPKCS1v15(k, crypto.SHA256, sum, t.signature) == nil
		}
		return rsa.VerifyPSS(k, crypto.SHA256, sum, t.signature, &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
	case *ecdsa.PublicKey:
		if len(t.signature) != 64 {
			return false
		}
		return ecdsa.Verify(k, sum, new(big.Int).SetBytes(t.signature[:32]), new(big.Int).SetBytes(t.signature[32:]))
	case ed25519.PublicKey:
		return ed25519.Verify(k, t.signed, t.signature)
	}
	return false
}

// checkClaims follows RFC 9068, section 4. The second result says what is wrong.
func checkClaims(is *issuer, fields map[string]json.RawMessage, now time.Time) (*claims, string) {
	if iss, _ := text(fields["iss"]); iss != is.url {
		return nil, "the token is from another issuer"
	}
	if !contains(textList(fields["aud"]), is.audience) {
		return nil, "the token is for another audience"
	}
	expires, ok := seconds(fields["exp"])
	expires = expires.Add(leeway)
	if !ok || !now.Before(expires) {
		return nil, expired
	}
	for _, name := range []string{"nbf", "iat"} {
		from, ok := seconds(fields[name])
		if fields[name] != nil && (!ok || now.Before(from.Add(-leeway))) {
			return nil, "the token is not valid yet"
		}
	}
	cl := &claims{until: now.Add(verifiedFor), scopes: textList(fields["scp"])}
	if expires.Before(cl.until) {
		cl.until = expires
	}
	if s, ok := text(fields["scope"]); ok {
		cl.scopes = strings.Fields(s)
	}
	cl.principal, _ = text(fields[is.claim])
	if !principalForm.MatchString(cl.principal) {
		return nil, "the token's claim " + is.claim + " does not name a principal"
	}
	return cl, ""
}

// seconds reads a NumericDate up to the year 9999.
func seconds(raw json.RawMessage) (time.Time, bool) {
	var n float64
	if err := json.Unmarshal(raw, &n); err != nil || raw[0] == 'n' || n < 0 || n > 253402300799 {
		return time.Time{}, false
	}
	return time.Unix(int64(n), 0), true
}

// textList reads a string or an array of strings.
func textList(raw json.RawMessage) []string {
	if s, ok := text(raw); ok {
		return []string{s}
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil
	}
	return list
}
