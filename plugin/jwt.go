package plugin

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// jwt is a token (RFC 7515, compact form) of which only the header is parsed:
// claims are read of a token that one of the issuer's keys has signed, and of no
// other while a fetch of keys is not due. Interpreted code runs for each claim,
// and a forged token must cost next to nothing.
type jwt struct {
	alg, kid  string
	profile   bool // its header says that it is an access token (RFC 9068)
	payload   string
	signed    []byte
	signature []byte
}

// maxHeader bounds the header of a JWT, in bytes of its Base64.
const maxHeader = 4 << 10

const notJWT = "the token is not a JWT signed with " + algorithmNames

// parseJWT reads a token's header strictly: exact keys, no duplicates, canonical
// Base64. The second result says what is wrong. A typ is that of an access token,
// or JWT, which many issuers write, or not there (RFC 8725, section 3.11; RFC
// 9068, section 4).
func parseJWT(raw string) (*jwt, string) {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 || len(parts[0]) > maxHeader {
		return nil, notJWT
	}
	header := jsonPart(parts[0])
	t := &jwt{payload: parts[1], signed: []byte(parts[0] + "." + parts[1]), signature: base64Part(parts[2])}
	if header == nil || len(t.signature) == 0 || header["crit"] != nil || header["b64"] != nil {
		return nil, notJWT
	}
	t.alg, _ = text(header["alg"])
	var named bool
	t.kid, named = text(header["kid"])
	if algorithms[t.alg] == nil || (header["kid"] != nil && !named) {
		return nil, notJWT
	}
	typ, isText := text(header["typ"])
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/")
	t.profile = typ == "at+jwt"
	if header["typ"] != nil && (!isText || (!t.profile && typ != "jwt")) {
		return nil, "the token's typ is not that of an access token"
	}
	return t, ""
}

// checkUse refuses what the issuer signed for something else: an ID token, or a
// token that is bound to a key, which as a bearer token would be worth more than
// was meant (RFC 7800; RFC 9449, section 7.2).
func checkUse(t *jwt, fields map[string]json.RawMessage) string {
	if fields["cnf"] != nil {
		return "the token is bound to a key (cnf): ask for a plain bearer token"
	}
	use, _ := text(fields["token_use"])
	kind, _ := text(fields["typ"])
	if use == "id" || kind == "ID" || kind == "Refresh" || fields["at_hash"] != nil || fields["c_hash"] != nil ||
		(fields["nonce"] != nil && !t.profile && kind != "Bearer") {
		return "the token is not an access token"
	}
	return ""
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

// jsonPart reads one object, and returns nil for another value, and for one that
// has a key twice: that shows in a count of the bytes, as in members. Claims are
// found by their exact names, so other cases of them are only unknown claims.
func jsonPart(part string) map[string]json.RawMessage {
	raw := base64Part(part)
	var compact bytes.Buffer
	var m map[string]json.RawMessage
	if json.Compact(&compact, raw) != nil || !utf8.Valid(raw) {
		return nil
	}
	if err := json.Unmarshal(compact.Bytes(), &m); err != nil || m == nil || len(m) > maxMembers {
		return nil
	}
	size := 1
	for key, value := range m {
		size += len(key) + len(value) + 4
	}
	if size != compact.Len() && len(m) > 0 {
		return nil
	}
	return m
}

const (
	notSigned       = "the token is not signed with a key of the issuer"
	keysUnavailable = "the issuer's keys cannot be had now"
)

// verify checks a token's signature and claims. The second result says what is
// wrong. With a known key the signature comes first. Without one the claims do: a
// token of someone else must not make us fetch keys.
func verify(c *call, is *issuer, raw string) (*claims, string) {
	t, wrong := parseJWT(raw)
	if wrong != "" {
		return nil, wrong
	}
	s := keySetOf(is)
	keys, usable, due := knownKeys(s, c.start)
	signed := usable && signedBy(keys, t)
	if usable && !signed && !due {
		return nil, notSigned
	}
	cl, why := readClaims(c, is, t)
	if why != "" || signed {
		return cl, why
	}
	newer, ready := renew(c, is, s)
	switch {
	case !ready:
		return nil, keysUnavailable
	case !signedBy(newer, t):
		return nil, notSigned
	}
	return cl, ""
}

func readClaims(c *call, is *issuer, t *jwt) (*claims, string) {
	fields := jsonPart(t.payload)
	if fields == nil {
		return nil, "the token's claims are not one JSON object of at most 256 members"
	}
	cl, why := checkClaims(is, fields, c.start)
	if why == "" {
		why = checkUse(t, fields)
	}
	if why == "" && !isFor(&is.resource, cl.audiences, c.r.URL.EscapedPath()) {
		why = wrongAudience
	}
	if why != "" {
		return nil, why
	}
	grantClaims(is, cl, fields, c.e)
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
