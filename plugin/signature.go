package plugin

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"math/big"
)

// algorithm is one way to sign (RFC 7518, section 3; RFC 8037; RFC 9864).
type algorithm struct {
	kty, crv string // of the key
	bits     int    // of SHA-2; 0: the algorithm hashes by itself
	size     int    // bytes of an EC signature
	pss      bool
}

// algorithms are the signatures that are accepted. There is no HMAC, so a public
// key can never serve as a secret, and no "none".
var algorithms = map[string]*algorithm{
	"RS256": {kty: "RSA", bits: 256}, "RS384": {kty: "RSA", bits: 384}, "RS512": {kty: "RSA", bits: 512},
	"PS256": {kty: "RSA", bits: 256, pss: true}, "PS384": {kty: "RSA", bits: 384, pss: true}, "PS512": {kty: "RSA",
		bits: 512, pss: true},
	"ES256": {kty: "EC", crv: "P-256", bits: 256, size: 64}, "ES384": {kty: "EC", crv: "P-384", bits: 384, size: 96},
	"ES512": {kty: "EC", crv: "P-521", bits: 512, size: 132},
	"EdDSA": {kty: "OKP", crv: "Ed25519"}, "Ed25519": {kty: "OKP", crv: "Ed25519"},
}

const algorithmNames = "RS256, PS256, ES256, their 384 and 512 forms, EdDSA or Ed25519"

// maxCandidates bounds the signatures that one token can have us check.
const maxCandidates = 10

// candidates match the algorithm's type, and the key id where both have one: it
// is a hint (RFC 7515, section 4.1.4).
func candidates(keys []*key, t *jwt) []*key {
	var found []*key
	a := algorithms[t.alg]
	for _, k := range keys {
		if (t.kid == "" || k.Kid == "" || k.Kid == t.kid) && k.Kty == a.kty && (a.crv == "" || k.Crv == a.crv) &&
			(k.Alg == "" || k.Alg == t.alg || (a.kty == "OKP" && algorithms[k.Alg] != nil)) &&
			len(found) < maxCandidates {
			found = append(found, k)
		}
	}
	return found
}

// signedBy says whether one of the keys signed the token.
func signedBy(keys []*key, t *jwt) bool {
	for _, k := range candidates(keys, t) {
		if goodSignature(t, k.Public) {
			return true
		}
	}
	return false
}

// goodSignature: the key's type was matched with the algorithm by candidates.
func goodSignature(t *jwt, public crypto.PublicKey) bool {
	a := algorithms[t.alg]
	hash, sum := digest(a.bits, t.signed)
	switch k := public.(type) {
	case *rsa.PublicKey:
		if a.pss {
			return rsa.VerifyPSS(k, hash, sum, t.signature,
				&rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}) == nil
		}
		return rsa.VerifyPKCS1v15(k, hash, sum, t.signature) == nil
	case *ecdsa.PublicKey:
		if len(t.signature) != a.size {
			return false
		}
		half := a.size / 2
		return ecdsa.Verify(k, sum, new(big.Int).SetBytes(t.signature[:half]),
			new(big.Int).SetBytes(t.signature[half:]))
	case ed25519.PublicKey:
		return ed25519.Verify(k, t.signed, t.signature)
	}
	return false
}

func digest(bits int, signed []byte) (crypto.Hash, []byte) {
	switch bits {
	case 384:
		sum := sha512.Sum384(signed)
		return crypto.SHA384, sum[:]
	case 512:
		sum := sha512.Sum512(signed)
		return crypto.SHA512, sum[:]
	}
	sum := sha256.Sum256(signed)
	return crypto.SHA256, sum[:]
}
