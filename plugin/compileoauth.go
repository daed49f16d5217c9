package plugin

import (
	"net/netip"
	"net/url"
	"regexp"
	"strings"
)

// scopeForm is of scopes (RFC 6749, section 3.3), and of names of claims, which
// stand in challenges too.
var scopeForm = regexp.MustCompile(`^[\x21\x23-\x5b\x5d-\x7e]{1,256}$`)

func compileOAuth(m *mistakes, e *edge, cfg *OAuth) *issuer {
	m.unknown("oauth.", cfg.Extra)
	urlSetting(m, "oauth.issuer", cfg.Issuer)
	is := &issuer{url: cfg.Issuer, jwksURL: cfg.JWKSURL, verified: &recent{},
		claim: cfg.PrincipalClaim, grantClaim: cfg.GrantClaim, toolsClaim: cfg.ToolsClaim, egressClaim: cfg.EgressClaim,
		grants: parseGrants(m, "oauth: ", e.cfg.Backend, cfg.Tools),
		egress: compileEgress(m, "oauth: ", e.cfg.Backend, cfg.Egress),
		limits: compileLimits(m, "oauth: ", cfg.RequestsPerMinute, cfg.MaxConcurrent, cfg.MaxStreams)}
	if is.claim == "" {
		is.claim = "sub"
	}
	for _, s := range cfg.Scopes {
		s = strings.TrimSpace(s)
		m.when(!scopeForm.MatchString(s), "oauth.scopes has %q, which is not a scope", s)
		is.scopes = append(is.scopes, s)
	}
	compileJWKS(m, e, cfg.JWKSURL)
	compileResource(m, e, is, cfg)
	compilePrincipals(m, e, is, cfg)
	compileClaimNames(m, is)
	if cfg.RevokedFile != "" {
		m.when(is.grantClaim == "", "oauth.revokedFile lists grants: name the claim that has a token's grant in "+
			"grantClaim")
		is.revoked = &revocations{file: cfg.RevokedFile, log: e.log}
	}
	return is
}

func compileClaimNames(m *mistakes, is *issuer) {
	for _, name := range []string{is.claim, is.grantClaim, is.toolsClaim, is.egressClaim} {
		m.when(name != "" && !scopeForm.MatchString(name), "oauth: %q is not the name of a claim", name)
	}
	m.when(is.egressClaim != "" && len(is.egress) == 0,
		`oauth.egressClaim is given, but no egress that it could be cut to: give the most that a token may have, or `+
			`"*"`)
}

// compileResource finds the URL that clients know the resource by.
func compileResource(m *mistakes, e *edge, is *issuer, cfg *OAuth) {
	key := "oauth.resource"
	value := cfg.Resource
	if value == "" {
		key = "oauth.audience"
		value = cfg.Audience
		m.when(!strings.Contains(value, "://") || strings.HasPrefix(value, "api://"),
			"oauth.audience is %q, which is not this endpoint's URL: give that URL too, as resource: https://host%s",
			value, e.prefix)
	} else {
		m.when(!scopeForm.MatchString(cfg.Audience), "oauth.audience is %q: give the aud claim of the issuer's "+
			"tokens for this endpoint", cfg.Audience)
		is.resource.own = cfg.Audience
	}
	u := urlSetting(m, key, value)
	if u == nil {
		return
	}
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	m.when(!insidePath(path, e.prefix) && !(path == "" && cfg.Resource != ""), "%s is %q: its path must be inside "+
		"pathPrefix", key, value)
	is.resource = newResource(u, e.prefix)
	if cfg.Resource != "" {
		is.resource.own = cfg.Audience
	}
}

// compilePrincipals wants to be told who may come in: with many issuers anybody can
// make an account.
func compilePrincipals(m *mistakes, e *edge, is *issuer, cfg *OAuth) {
	m.when(len(cfg.Principals) == 0 && cfg.ToolsClaim == "",
		`oauth: whoever has an account at the issuer could come in: list who may, `+
			`as principals: {"value of %s": ["tool"]}, or name the claim in which the issuer sends grants, as `+
			`toolsClaim`,
		is.claim)
	if len(cfg.Principals) == 0 {
		return
	}
	is.principals = map[string]*grants{}
	for name, list := range cfg.Principals {
		where := "oauth.principals: " + name + ": "
		m.when(!principalForm.MatchString(name), "oauth.principals has %q: give the value of %s, 1 to 128 of A-Z "+
			"a-z 0-9 . _ @ | : + -", name, is.claim)
		own := parseGrants(m, where, e.cfg.Backend, list)
		for _, g := range own.list {
			m.when(len(narrowed(e.cfg.Backend, is.grants.list, []*grant{g}).list) == 0, "%stools has %q, of which "+
				"oauth.tools allows nothing", where, g.written)
		}
		is.principals[name] = narrowed(e.cfg.Backend, is.grants.list, own.list)
	}
}

// urlSetting wants https, since keys and tokens depend on it, except on loopback.
func urlSetting(m *mistakes, key, value string) *url.URL {
	u := plainURL(value)
	if u == nil || !safeURL(u) {
		m.when(true, "%s is %q: give an https URL without user, query and fragment", key, value)
		return nil
	}
	return u
}

// plainURL returns nil for a URL with more than an origin and a path.
func plainURL(value string) *url.URL {
	u, err := url.Parse(value)
	if err != nil || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.Hostname() == "" {
		return nil
	}
	return u
}

func safeURL(u *url.URL) bool {
	host := u.Hostname()
	return host != "" && (u.Scheme == "https" ||
		(u.Scheme == "http" && (host == "localhost" || host == "127.0.0.1" || host == "::1")))
}

// innerName are names that no public DNS has: of one label, as containers have
// them, and those that are set apart (RFC 6762, RFC 8375, ICANN's internal, and
// Kubernetes' services).
var innerName = regexp.MustCompile(`^(?:[a-z0-9-]+|.*\.(?:local|internal|home\.arpa|svc|svc\.cluster\.local))$`)

// compileJWKS accepts clear text within one's own network too, and names the risk.
func compileJWKS(m *mistakes, e *edge, value string) {
	if value == "" {
		return
	}
	u := plainURL(value)
	if u == nil {
		m.when(true, "oauth.jwksUrl is %q: give a URL without user, query and fragment", value)
		return
	}
	if safeURL(u) {
		return
	}
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	inner := innerName.MatchString(host)
	if err == nil {
		inner = addr.IsPrivate() || addr.IsLoopback() || addr.IsLinkLocalUnicast()
	}
	if u.Scheme != "http" || !inner {
		m.when(true, "oauth.jwksUrl is %q: give an https URL; http only within this machine or its private networks",
			value)
		return
	}
	e.log.Warn("the issuer's keys come in clear text from " + host + ": whoever can answer in its place on that " +
		"network can sign tokens that are believed here")
}
