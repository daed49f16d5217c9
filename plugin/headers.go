package plugin

import (
	"regexp"
	"strings"
)

// The names below decide which headers pass. What a list does not name passes:
// servers have headers of their own, such as X-Api-Key, X-Ratelimit-Limit or Link.

// never are the headers of a request that no setting lets through: those that the
// edge alone may set, those that would change the method or path after the
// decision, and those of one hop.
var never = map[string]bool{
	"Forwarded": true, "X-Forwarded-Prefix": true, "X-Replaced-Path": true, "X-Http-Method": true,
	"X-Override-Url": true, "X-Forwarded-Path": true, "X-Forwarded-Uri": true, "X-Forwarded-Method": true,
	"X-Envoy-Original-Path": true, "X-Envoy-Original-Method": true, "X-Envoy-Decorator-Operation": true,
	"X-Host": true, "X-Script-Name": true, "X-Waws-Unencoded-Url": true,
	"Authorization": true, "Proxy-Authorization": true, "Proxy-Connection": true, "Connection": true,
	"Keep-Alive": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Expect": true, "Upgrade": true,
	"Http2-Settings": true,
}

// naming are the headers by which browsers and proxies say who calls, and from where.
// The edge says that; a setting lets single ones pass.
var naming = map[string]bool{
	"Cookie": true, "Cookie2": true, "X-User": true, "X-Username": true, "X-Userinfo": true, "X-Email": true,
	"X-Groups": true, "X-Id-Token": true, "X-Arr-Clientcert": true, "Client-Cert": true, "Client-Cert-Chain": true,
	"True-Client-Ip": true, "X-Client-Ip": true, "X-Cluster-Client-Ip": true, "Cf-Connecting-Ip": true,
	"Cf-Connecting-Ipv6": true, "Fastly-Client-Ip": true,
}

// forwardedFor are the X-Forwarded- headers that Traefik writes for every server.
var forwardedFor = map[string]bool{
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Port": true, "X-Forwarded-Proto": true,
	"X-Forwarded-Server": true,
}

// namedPrefixes begin the names of whole families of naming.
var namedPrefixes = []string{"X-Forwarded-", "X-Auth-Request-", "X-Auth-User", "X-Auth-Email", "X-Auth-Name",
	"X-Auth-Groups", "X-Auth-Roles", "X-Authentik-", "X-Authenticated-", "X-Envoy-", "X-Ms-Client-Principal",
	"X-Ms-Token-", "X-Goog-Authenticated-User-", "X-Goog-Iap-", "X-Amzn-Oidc-", "Cf-Access-", "X-Vouch-", "Remote-",
	"X-Remote-", "X-User-Id", "X-User-Name", "X-User-Email", "X-User-Groups", "X-User-Roles", "X-Webauth-",
	"X-Proxy-User", "X-Consumer-", "X-Credential-", "X-Pomerium-", "X-Jwt-Assertion", "X-Jwt-Claim-", "Oidc-",
	"X-Oidc-",
	"X-Ssl-Client-", "Ssl-Client-", "X-Client-Cert", "X-Client-Dn", "X-Tls-Client-"}

var namedFamily = regexp.MustCompile("^(?:" + strings.Join(namedPrefixes, "|") + ")") // compiled code

// fine are headers that pass as they are, or that forward sets.
var fine = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Authorization": true, "Cache-Control": true,
	"Content-Length": true, "Content-Type": true, "Last-Event-Id": true, "Mcp-Method": true, "Mcp-Name": true,
	"Mcp-Protocol-Version": true, "Mcp-Session-Id": true, "Origin": true, "Pragma": true, "Referer": true,
	"Sec-Fetch-Dest": true, "Sec-Fetch-Mode": true, "Sec-Fetch-Site": true, "Traceparent": true, "User-Agent": true,
	"X-Forwarded-For": true, "X-Forwarded-Host": true, "X-Forwarded-Port": true, "X-Forwarded-Proto": true,
	"X-Forwarded-Server": true, "X-Real-Ip": true,
}

// neverFits says which headers of a request no setting lets through. Those with
// an underscore or a dot never pass because many servers read both as hyphens, so
// they could be taken for one of ours; Mcp-Param- names come from tool schemas
// and end in anything.
func neverFits(key string) bool {
	return never[key] || neverFamily.MatchString(key) ||
		(strings.ContainsAny(key, "_.") && !strings.HasPrefix(key, "Mcp-Param-"))
}

var neverFamily = regexp.MustCompile("^(?:X-Sallypor|Tailscale-|X-Original-|X-Rewrite-)|-Override$")

// namesSomebody says which headers of a request pass by a setting only.
func namesSomebody(key string) bool {
	return naming[key] || (namedFamily.MatchString(key) && !forwardedFor[key])
}

// plainAnswer are headers of an answer that need no look.
var plainAnswer = map[string]bool{
	"Content-Type": true, "Content-Length": true, "Date": true, "Mcp-Session-Id": true, "Cache-Control": true,
	"Vary":              true,
	"X-Accel-Buffering": true, "Mcp-Protocol-Version": true, "Server": true, "X-Content-Type-Options": true,
	"Allow": true, "Retry-After": true,
	"Content-Encoding": true, "Etag": true, "Last-Modified": true, "X-Powered-By": true,
	"Access-Control-Allow-Origin":   true,
	"Access-Control-Expose-Headers": true,
}

// addresses are the headers of an answer that hold an address which clients
// follow: they are mapped like an endpoint.
var addresses = map[string]bool{"Location": true, "Content-Location": true}

// challenges are headers of an answer about a token that the client does not
// share with the server, and what announces headers behind it. They never pass.
var challenges = map[string]bool{
	"Www-Authenticate": true, "Proxy-Authenticate": true, "Authentication-Info": true,
	"Proxy-Authentication-Info":    true,
	"Proxy-Authentication-Control": true, "Authentication-Control": true, "Trailer": true,
}

// planted are headers of an answer that outlive it in the whole origin, which
// others share, or that tell a proxy in front to fetch something else. A setting
// lets single ones pass.
var planted = map[string]bool{
	"Set-Cookie": true, "Set-Cookie2": true, "Clear-Site-Data": true, "Strict-Transport-Security": true,
	"Public-Key-Pins":             true,
	"Public-Key-Pins-Report-Only": true, "Expect-Ct": true, "Alt-Svc": true, "Refresh": true,
	"Service-Worker-Allowed": true,
	"Report-To":              true, "Reporting-Endpoints": true, "Nel": true, "Accept-Ch": true, "Critical-Ch": true,
	"Origin-Agent-Cluster": true, "Accept-Ch-Lifetime": true, "Set-Login": true, "Use-As-Dictionary": true,
	"Speculation-Rules": true, "Secure-Session-Registration": true, "Sec-Session-Registration": true,
	"Surrogate-Control": true, "Cdn-Cache-Control": true, "X-Accel-Expires": true,
	"X-Accel-Redirect": true, "X-Sendfile": true, "X-Lighttpd-Send-File": true, "X-Reproxy-Url": true,
}

func neverPasses(key string) bool { return challenges[key] || addresses[key] }

func isPlanted(key string) bool { return planted[key] }
