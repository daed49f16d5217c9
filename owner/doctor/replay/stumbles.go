package replay

// Stumble is what a client cannot pass, with its cause and its fix.
type Stumble struct{ Verdict, Cause, Fix string }

// Stumbles are known by name. Each has a heading in docs/troubleshooting.md.
var Stumbles = map[string]Stumble{
	"unreachable": {"fail", "there is no answer from this address",
		"open it from another network; sallyport doctor URL walks the way to it"},
	"not-public": {"warn", "this client connects from its maker's network, and accepts https on port 443 of a " +
		"public address only",
		"serve the URL through Funnel on 443, or a reverse proxy of your own; other ports of Funnel do not work " +
			"for it"},
	"open": {"fail", "the address serves anyone without a token",
		"take it off the network now; then attach the plugin's middleware to this router"},
	"redirected": {"fail", "clients turn a redirected POST into a GET, or lose the token",
		"give the client the address that the redirect names, without a redirect on it"},
	"not-401": {"fail", "a request without a token must be answered with 401, or the client does not begin to log in",
		"sallyport doctor URL finds what answers instead of the plugin"},
	"no-challenge": {"fail", "the 401 has no WWW-Authenticate: Bearer header, so the client does not know that it " +
		"can log in",
		"let the plugin answer, with an oauth section on this middleware; a proxy on the way may drop the header"},
	"no-metadata-link": {"fail", "the challenge has no resource_metadata: this URL takes configured tokens, not OAuth",
		"give the client the URL of a router whose middleware has oauth (with Sallyport's login: /mcp-oauth/…), or " +
			"paste a token where the client allows one"},
	"no-resource-metadata": {"fail", "the protected resource metadata (RFC 9728) is not where this client looks",
		"route /.well-known/oauth-protected-resource and what is below it to the plugin, as traefik-dynamic.yml does"},
	"not-json": {"fail", "the document is not one JSON object",
		"another router or a login page answers at this address: give the well-known routers a higher priority"},
	"resource-differs": {"fail", "the metadata is of another URL than the one that was typed, and this client " +
		"compares them",
		"type exactly the URL of the metadata, or set the origin in oauth.audience (or oauth.resource) to the " +
			"public one"},
	"no-server": {"fail", "the metadata names no authorization server",
		"set oauth.issuer"},
	"no-server-metadata": {"fail", "the issuer publishes its metadata at none of the places where this client looks",
		"the issuer must answer at /.well-known/oauth-authorization-server with its path behind (RFC 8414)"},
	"first-place-only": {"warn", "the metadata is not at the first place: the iOS app looks nowhere else",
		"let the issuer answer at /.well-known/oauth-authorization-server with its path behind too"},
	"issuer-differs": {"fail", "the issuer calls itself by another name than the resource does, and this client " +
		"compares them byte for byte",
		"one issuer string everywhere: in oauth.issuer, in its metadata and in its tokens, with the same slash at " +
			"its end, or none"},
	"no-endpoints": {"fail", "the metadata lacks authorization_endpoint or token_endpoint",
		"complete the issuer's metadata"},
	"no-s256": {"fail", "code_challenge_methods_supported does not list S256, so the client believes that there is " +
		"no PKCE",
		"let the issuer publish it; most have a switch for PKCE per client"},
	"no-registration": {"fail", "the issuer offers no way to get a client id: neither metadata documents with the " +
		"method none, nor a registration endpoint",
		"enable dynamic registration at the issuer, or make a client there by hand and type its id into the assistant"},
	"registration-limited": {"fail", "the issuer allows too few registrations: this client registers anew for each " +
		"connection, twice within two seconds",
		"allow at least 20 a minute"},
	"registration-refused": {"fail", "the issuer refuses the registration",
		"allow the redirect URIs and the methods of this client; the answer names what it dislikes"},
	"registration-null": {"fail", "the registration's answer has null members, which this client's parser refuses",
		"let the issuer leave absent members out"},
	"redirect-dropped": {"fail", "the issuer did not register a redirect URI that this client needs",
		"allow it: private-use schemes and http on loopback are part of this client"},
	"assertion-only": {"warn", "the issuer takes metadata documents, but not private_key_jwt: some of this " +
		"client's documents know nothing else",
		"list private_key_jwt and none in token_endpoint_auth_methods_supported"},
	"authorize-refused": {"fail", "the authorization endpoint refuses the request before anybody could agree",
		"the answer names the parameter; check the client's redirect URIs and scopes at the issuer"},
	"scope-refused": {"warn", "the issuer refuses a request with scopes that it does not know; some versions of this " +
		"client ask for openid, profile and email unasked",
		"let the issuer drop unknown scopes instead of answering invalid_scope"},
	"consent-refused": {"fail", "the issuer sent the browser back with an error",
		"agree to the request; with access_denied look at who may use this client at the issuer"},
	"callback-elsewhere": {"fail", "the browser was sent to another address than the client's",
		"the issuer must use the redirect_uri of the request, exactly"},
	"state-lost": {"fail", "state came back changed, so the client takes the answer for a forged one",
		"the issuer, or a proxy before it, must return state as it was sent"},
	"iss-missing": {"fail", "the issuer promises iss in its answers (RFC 9207) and does not send it: this client stops",
		"send iss with every answer, errors too, or do not advertise it"},
	"iss-differs": {"fail", "iss in the answer is not the issuer, so the client takes it for a mix-up attack",
		"one issuer string everywhere, with the same slash at its end, or none"},
	"token-redirects": {"fail", "the token endpoint redirects, which no client follows with its code",
		"publish the final address as token_endpoint"},
	"token-not-json": {"fail", "the token endpoint answers with something else than JSON",
		"errors must be JSON too (RFC 6749, section 5.2); a proxy's error page or a login page may stand in between"},
	"token-refused": {"fail", "the token endpoint refuses the exchange",
		"the error names the reason; invalid_client with a metadata document means that none or private_key_jwt is " +
			"not accepted"},
	"no-refresh-token": {"warn", "there is no refresh token: the client asks the owner again when the access token " +
		"expires",
		"list offline_access in the issuer's scopes_supported, and give refresh tokens to public clients"},
	"authorized-then-401": {"fail", "the token is fresh from the issuer, and the plugin refuses it",
		"compare oauth.issuer with iss and oauth.audience with aud; an issuer that knows no resource needs an " +
			"audience mapper, or oauth.audience in its own form with oauth.resource"},
	"forbidden": {"fail", "the token is good, but its holder may do nothing here",
		"list the principal in oauth.principals, or let the claim of oauth.toolsClaim name something that " +
			"oauth.tools allows"},
	"call-failed": {"fail", "the first call fails behind the plugin",
		"sallyport doctor URL with a token walks the rest of the way"},
	"refresh-refused": {"fail", "the refresh is refused: the client has to be connected again every time its " +
		"access token expires",
		"issue refresh tokens to public clients and accept them with the same client_id; some clients send no " +
			"resource then"},
	"refresh-replayed": {"fail", "the same refresh token, sent twice, logs the client out: this client refreshes " +
		"from two places",
		"give a replaced refresh token a grace of a minute in which it returns the same successor"},
}
