// Package plugin is the edge: a Traefik middleware that decides who may call
// what before a request reaches an MCP server.
//
// Traefik interprets it with Yaegi v0.16.1, so it is written in an older Go
// dialect and imports the standard library only. A request meets the files in
// this order: edge, path, auth, limit, body, policy, forward, and the answer
// meets answer, headers, scan, event, endpoint and filter.
package plugin

// Config is what Traefik decodes from the middleware's settings. Keys are the
// field names, whatever their case. Times are strings, sizes are bytes.
type Config struct {
	Backend           string   // sandbox, hub or other: who is behind this router
	PathPrefix        string   // what clients see, such as /mcp-sandbox
	BackendPath       string   // what the backend serves at; empty is PathPrefix
	BackendAuth       string   // token or none
	BackendToken      string   // a literal backend token; shown in Traefik's API
	BackendTokenFile  string   // the documented form of BackendToken
	Tokens            []Token  // the client tokens
	OAuth             *OAuth   // an OAuth issuer, beside or instead of Tokens
	BackendOrigins    []string // scheme://host[:port] by which the backend may name itself; loopback ones always
	RequestHeaders    []string // headers about users that reach the backend all the same
	ResponseHeaders   []string // headers about the whole origin that reach clients all the same
	AllowedOrigins    []string // values of Origin that may pass
	MaxBodyBytes      int64    // largest request body
	FilterTools       bool     // filter tools/list of a foreign backend here
	ClientAddress     string   // remote or x-forwarded-for
	FailuresPerMinute int      // wrong tokens from one address before 429
	AuditLog          bool     // one JSON line per decision on stdout
	LogLevel          string   // debug, info, warn or error

	// Extra catches misspelt keys, which Traefik would drop silently.
	Extra map[string]interface{} `mapstructure:",remain"`
}

// Token is one client token and what its holder may call. Exactly one of
// SHA256, Value and ValueFile names it. A limit of zero is its default.
type Token struct {
	Name      string   // the principal is token:NAME
	SHA256    string   // hex of the token's SHA-256
	Value     string   // the token itself; shown in Traefik's API
	ValueFile string   // a file that holds the token, read again when it changes
	Tools     []string // grants: tool, server/tool, server/*, *, ask:…, method:…
	Egress    []string // what commands may connect to: name, *.suffix, either with :port, http://name, *
	Expires   string   // last valid day in UTC, 2006-01-02

	RequestsPerMinute int // default 600
	MaxConcurrent     int // requests under way at once, default 48
	MaxStreams        int // open streams and calls that wait for the owner, default 64

	Extra map[string]interface{} `mapstructure:",remain"`
}

// OAuth makes the middleware a resource server (RFC 9728) for the access tokens
// (RFC 9068) of one issuer. Each principal gets the limits of a Token.
type OAuth struct {
	Issuer         string              // exact value of the iss claim
	Audience       string              // an aud claim: this resource's URL, or the issuer's name for it
	Resource       string              // this resource's URL, where Audience is none
	JWKSURL        string              // where the issuer's keys are; empty is discovery
	PrincipalClaim string              // the principal is oauth:CLAIM; default sub
	Scopes         []string            // scopes that a token must have; may be empty
	Tools          []string            // the most that anybody gets: grants, as in Token
	Principals     map[string][]string // value of PrincipalClaim to grants; who is not listed gets 403
	ToolsClaim     string              // claim with grants, an array of at most 100 strings
	Egress         []string            // the most that anybody gets: rules, as in Token
	EgressClaim    string              // claim with rules
	GrantClaim     string              // claim with the grant's id: the principal is oauth:CLAIM#GRANT
	RevokedFile    string              // ids of grants that were revoked, one per line

	RequestsPerMinute int
	MaxConcurrent     int
	MaxStreams        int

	Extra map[string]interface{} `mapstructure:",remain"`
}

// CreateConfig returns the defaults.
func CreateConfig() *Config {
	return &Config{
		Backend:           "other",
		BackendAuth:       "token",
		MaxBodyBytes:      8 << 20,
		ClientAddress:     "remote",
		FailuresPerMinute: 30,
		AuditLog:          true,
		LogLevel:          "info",
	}
}
