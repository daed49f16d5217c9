package plugin

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// mistakes collects everything that is wrong with a configuration, so that its
// author can fix it in one go.
type mistakes struct{ list []string }

// when adds a mistake where there is one.
func (m *mistakes) when(wrong bool, format string, args ...interface{}) {
	if wrong {
		m.list = append(m.list, fmt.Sprintf(format, args...))
	}
}

func (m *mistakes) unknown(where string, extra map[string]interface{}) {
	for key := range extra {
		m.when(true, "%s%s is not a setting: see the configuration reference", where, key)
	}
}

func (m *mistakes) choice(key, value string, choices ...string) {
	m.when(!contains(choices, value), "%s is %q: give one of %s", key, value, strings.Join(choices, ", "))
}

func (m *mistakes) number(key string, n, most int64) {
	m.when(n < 1 || n > most, "%s is %d: give 1 to %d", key, n, most)
}

var (
	pathForm   = regexp.MustCompile(`^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)
	nameForm   = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)
	originForm = regexp.MustCompile(`^[a-z][a-z0-9+.-]*://[a-z0-9.\[\]:-]+$`)
)

// compile turns a configuration into an edge without next.
func compile(cfg *Config, name string, m *mistakes) *edge {
	e := &edge{cfg: cfg, name: name, log: logger(out, name, levels[cfg.LogLevel]),
		audit: logger(waiting, name, slog.LevelInfo), origins: map[string]bool{}, keep: math.MaxUint64,
		hub: cfg.Backend == "hub", foreign: cfg.Backend == "other",
		inner: map[string]bool{}, told: map[string]bool{}}
	m.unknown("", cfg.Extra)
	m.choice("backend", cfg.Backend, "sandbox", "hub", "other")
	m.choice("backendAuth", cfg.BackendAuth, "token", "none")
	m.choice("clientAddress", cfg.ClientAddress, "remote", "x-forwarded-for")
	m.choice("logLevel", cfg.LogLevel, "debug", "info", "warn", "error")
	m.number("maxBodyBytes", cfg.MaxBodyBytes, 1<<30)
	m.number("failuresPerMinute", int64(cfg.FailuresPerMinute), 1000000)
	m.when(cfg.FilterTools && cfg.Backend != "other", "filterTools is for backend: other: a %s filters its own list",
		cfg.Backend)
	e.prefix = pathSetting(m, "pathPrefix", cfg.PathPrefix)
	e.alike = regexp.MustCompile("^" + regexp.QuoteMeta(e.prefix) + pathForm.String()[1:])
	e.backendPath = e.prefix
	if cfg.BackendPath != "" {
		e.backendPath = pathSetting(m, "backendPath", cfg.BackendPath)
	}
	addOrigins(m, "allowedOrigins", cfg.AllowedOrigins, e.origins)
	addOrigins(m, "backendOrigins", cfg.BackendOrigins, e.inner)
	e.passOn = addHeaders(m, "requestHeaders", cfg.RequestHeaders, neverFits, namesSomebody)
	e.passBack = addHeaders(m, "responseHeaders", cfg.ResponseHeaders, neverPasses, isPlanted)
	m.when(len(cfg.Tokens) == 0 && cfg.OAuth == nil, "tokens is empty and oauth is not set: nobody could call anything")
	for i := range cfg.Tokens {
		e.tokens = append(e.tokens, compileToken(m, e, &cfg.Tokens[i], i))
	}
	compileBackendToken(m, e, cfg)
	if cfg.OAuth != nil {
		e.oauth = compileOAuth(m, e, cfg.OAuth)
	}
	e.table.Store(loadSecrets(e, &m.list))
	return e
}

func addOrigins(m *mistakes, key string, list []string, to map[string]bool) {
	for _, o := range list {
		o = strings.TrimSpace(o)
		m.when(!originForm.MatchString(o), "%s has %q: give scheme://host[:port] in lower case, without a path or *",
			key, o)
		to[o] = true
	}
}

// addHeaders reads names of headers, of those that are dropped by default.
func addHeaders(m *mistakes, key string, list []string, never, drops func(string) bool) map[string]bool {
	names := map[string]bool{}
	for _, written := range list {
		name := http.CanonicalHeaderKey(strings.TrimSpace(written))
		m.when(never(name), "%s has %q, which never passes: remove it", key, written)
		m.when(!never(name) && !drops(name), "%s has %q, which is not dropped: remove it, or see the list in the "+
			"reference", key, written)
		names[name] = true
	}
	return names
}

// pathSetting returns a path without a slash at its end: the root is "". Only
// characters that are never escaped may stand in it, so that the decoded and
// the escaped path of a request have the same prefix.
func pathSetting(m *mistakes, key, value string) string {
	if value == "/" {
		return ""
	}
	m.when(!pathForm.MatchString(value), "%s is %q: give an absolute path such as /mcp, without a slash at its end, "+
		"dot segments or escapes", key, value)
	return value
}

// compileToken reads one client token. Files are read by loadSecrets.
func compileToken(m *mistakes, e *edge, cfg *Token, i int) *token {
	where := "token " + cfg.Name + ": "
	if !nameForm.MatchString(cfg.Name) {
		where = fmt.Sprintf("tokens[%d]: ", i)
		m.when(true, "%sname is %q: give 1 to 64 of a-z, 0-9, dot, underscore and hyphen", where, cfg.Name)
	}
	for _, t := range e.tokens {
		m.when(t.who.id == "token:"+cfg.Name, "%sthe name is used twice", where)
	}
	m.unknown(where, cfg.Extra)
	id := "token:" + cfg.Name
	t := &token{where: where, until: math.MaxInt64,
		who: &principal{id: id, header: []string{id}, usage: usageOf(e, id, time.Now()),
			grants: parseGrants(m, where, e.cfg.Backend, cfg.Tools),
			egress: egressHeader(compileEgress(m, where, e.cfg.Backend, cfg.Egress)),
			limits: compileLimits(m, where, cfg.RequestsPerMinute, cfg.MaxConcurrent, cfg.MaxStreams),
			calls:  e.audit.With("verdict", allowed, "principal", id, "http", "POST", "method", "tools/call")}}
	if cfg.Expires != "" {
		day, err := time.Parse("2006-01-02", cfg.Expires)
		m.when(err != nil || day.Year() < 1970, "%sexpires is %q: give the last valid day as 2027-06-30", where,
			cfg.Expires)
		day = day.AddDate(0, 0, 1)
		if day.Year() < 2262 { // until when nanoseconds fit
			t.until = day.UnixNano()
		}
	}
	t.who.until = t.until
	given := 0
	for _, s := range []string{cfg.SHA256, cfg.Value, cfg.ValueFile} {
		if s != "" {
			given++
		}
	}
	m.when(given != 1, "%sgive exactly one of sha256, value and valueFile", where)
	t.secret = &secret{text: cfg.Value, file: cfg.ValueFile}
	if cfg.ValueFile != "" {
		e.keep = uint64(secretInterval)
	}
	e.literal = e.literal || cfg.Value != ""
	if cfg.SHA256 != "" {
		sum, err := hex.DecodeString(cfg.SHA256)
		m.when(err != nil || len(sum) != 32 || match([][]byte{sum}, "") == 0,
			"%ssha256 is not the 64 hex digits of a token's SHA-256", where)
		t.secret.sum = sum
	}
	return t
}

func compileLimits(m *mistakes, where string, perMinute, concurrent, streams int) limits {
	m.when(perMinute < 0 || concurrent < 0 || streams < 0,
		"%srequestsPerMinute, maxConcurrent and maxStreams must be positive", where)
	each := int64(time.Minute) / int64(orDefault(perMinute, 600))
	return limits{each, int64(time.Minute) - each,
		[2]int64{int64(orDefault(concurrent, 48)), int64(orDefault(streams, 64))}}
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func compileBackendToken(m *mistakes, e *edge, cfg *Config) {
	literal := cfg.BackendToken != ""
	file := cfg.BackendTokenFile != ""
	if cfg.BackendAuth == "none" {
		m.when(literal || file, "backendAuth is none, but a backend token is given: remove one of them")
		return
	}
	if literal == file {
		m.when(true,
			"backendAuth is token: give exactly one of backendTokenFile and backendToken, or backendAuth: none")
		return
	}
	e.backendToken = &secret{text: cfg.BackendToken, file: cfg.BackendTokenFile}
	if file {
		e.keep = uint64(secretInterval)
	}
	e.literal = e.literal || literal
}
