package doctor

// Finding is a fault that doctor knows, with its likely cause and its fix.
type Finding struct {
	Verdict    Verdict
	Cause, Fix string
}

// Findings are the faults by name. Each has a heading of this name in
// docs/troubleshooting.md.
var Findings = map[string]Finding{
	// The machine and the files.
	"kernel-too-old": {Warn, "the full jail needs Linux 6.12 with Landlock and seccomp",
		"use a newer kernel; MCP_JAIL=group starts without these restrictions and says what is lost"},
	"token-missing": {Fail, "there is no client token to connect with, so only what needs none was looked at",
		"make run and make up create .sallyport/edge/client-token; name another file with -token-file; where " +
			"permission is denied, run doctor as the account that owns .sallyport"},
	"token-readable": {Fail, "every program of the machine that may read the token file can call the tools",
		"chmod 600 the file and its folder 700, then replace the token: delete the file and run make env; the server " +
			"reads the new one within a second"},
	"workspace-holds-installation": {Fail, "a command can read the tokens, or change the Makefile, the compose file " +
		"and Traefik's rules: whoever may call run_command is then the owner",
		"serve another directory (remove .env and run make env WORKSPACE=DIR; of the checkout only ./workspace), or " +
			"move the installation out of the workspace, then make new tokens"},
	"token-in-environment": {Warn, "a token in the environment is inherited by children and shown by docker inspect " +
		"and /proc",
		"put it into a file and set MCP_AUTH_TOKEN_FILE instead of MCP_AUTH_TOKEN"},
	"clock-skew": {Warn, "the clock there and the clock here differ, so the last valid day of a token and OAuth " +
		"lifetimes are read wrongly",
		"set the clock by NTP on the machine that is wrong"},

	// The owner: records and sockets.
	"audit-broken": {Fail, "the records of calls were changed, cut or lost since they were written, or cannot be " +
		"checked",
		"keep the folder as it is and look: sallyport audit verify; then move it aside and restart, which begins a " +
			"new chain"},
	"audit-readable": {Warn, "other accounts of this machine can look into the records of calls",
		"chmod 700 the folder; the server does so itself at each start and checkpoint, so find out what changes it"},
	"audit-off": {Warn, "nobody can say later what was called",
		"set MCP_AUDIT_FILE to a file in a folder of its own; make run and make up do so by themselves"},
	"owner-socket-open": {Fail, "whoever can connect to the owner's socket, also a command of the sandbox, can " +
		"approve and stop calls",
		"stop the server, remove the socket, and start a sandboxd or hub of this version with MCP_OWNER_KEY_FILE"},
	"owner-key": {Warn, "the key beside the socket is not the one that the server has read, or you may not read it",
		"restart the server, which reads the key at its start; or run doctor as the account that owns " +
			".sallyport/owner/key"},
	"ask-unanswered": {Fail, "a call of that tool needs an approval that nobody can give, and is refused",
		"start the server with MCP_OWNER_SOCKET and MCP_OWNER_KEY_FILE (make up sets both), or grant the tool " +
			"without ask:"},

	// The way out of commands.
	"egress-down": {Fail, "commands cannot reach the hosts that they are allowed: egress does not answer",
		"start it (make up starts the profile egress), and look at its first log lines; its key file is " +
			".sallyport/egress/key, and it reads that once"},
	"egress-open": {Fail, "whoever can connect to egress's socket, also a command, uses it without its key",
		"stop egress, remove the socket, and start a sallyport-egress of this version"},
	"egress-narrow": {Warn, "a rule of a token is wider than what egress allows at most, so its commands are refused " +
		"there",
		"add the rule to EGRESS_ALLOW in .env and restart egress, or take it off the token"},
	"egress-unresolvable": {Warn, "an allowed host has no address that egress would dial",
		"check the spelling and the DNS of egress's container; a host at home needs a rule private:NAME:PORT"},

	"proxy-ignored": {Warn, "a program of that command does not use the proxy variables, so it found no host at all, " +
		"allowed or not",
		"tell the program of the proxy 127.0.0.1:3128 in its own way (docs/egress.md, Tools: Maven, older Node, " +
			"Gradle); " +
			"egress forgets this when it is started again"},

	// Who logs in with OAuth.
	"login-host-shared": {Warn, "login asks for the password only once, but its host name serves other things too, " +
		"whose pages can read and click what login shows",
		"write \"ownHost\": false in config/login.json and docker compose restart login, or move the other things to " +
			"a name of their own"},

	// The backend.
	"backend-down": {Fail, "sandboxd does not answer at its address",
		"start it: make run, make up, or docker compose up -d sandboxd; its first log lines say why it would not " +
			"start"},
	"backend-loopback": {Fail, "the port is published, but inside the container nothing listens where Docker " +
		"connects to: the server is bound to the container's own loopback",
		"set MCP_ADDR=:8000 inside the container (the image's default); the publishing to 127.0.0.1 on the host is " +
			"what keeps the port private"},
	"backend-foreign": {Fail, "something else than sandboxd answers at the backend's address",
		"find it with ss -ltnp and stop it, or name the right address with -backend"},
	"backend-exposed": {Fail, "the backend's port can be reached from the network, past Traefik and the plugin",
		"publish it on loopback only: 127.0.0.1:18080:8000 in docker-compose.yml, or MCP_ADDR=127.0.0.1:18080"},

	// The way to the edge.
	"unreachable": {Fail, "nothing accepts connections at this address, or nobody knows its name",
		"start Traefik (make up) or sallyport-run (make run); behind Funnel look at tailscale funnel status"},
	"tls-untrusted": {Fail, "the certificate cannot be verified, so a client refuses to connect",
		"use the name in the certificate; on a tailnet give the router tls.certResolver tailscale; -insecure looks " +
			"further without verifying"},
	"open": {Fail, "the address serves anyone without a token",
		"take it off the network now; then attach the plugin's middleware to this router"},
	"no-challenge": {Warn, "a 401 without WWW-Authenticate: Bearer makes some clients give up instead of sending " +
		"their token",
		"let the plugin answer: no other authentication middleware before it"},
	"redirect": {Fail, "clients turn a redirected POST into a GET, and drop or leak the token",
		"give clients the address that the redirect names, and take redirect middlewares off this router"},
	"not-routed": {Fail, "no router matches this address: the plugin was not loaded, its router was dropped for a " +
		"configuration error, or the path or host differs from the rule",
		"read Traefik's log from its start for sallyport or plugin; compare the router's rule with this address"},
	"router-dropped": {Fail, "the fallback router answers: the guarded router was dropped, because the plugin was " +
		"not loaded or its configuration has a mistake",
		"Traefik's log names the mistake (search for the middleware's name); correct it, and after make up: docker " +
			"compose restart traefik"},
	"backend-unreachable": {Fail, "Traefik cannot reach the service behind the router",
		"start sandboxd; the service's URL must be an address as Traefik sees it (127.0.0.1:18080 with host " +
			"networking only)"},
	"refused": {Fail, "a guard before the plugin refuses the request",
		"look for IP allow lists, forwardAuth or a Host check on this router or in MCP_ALLOWED_HOSTS"},
	"answer-stopped": {Fail, "the plugin does not pass on what the server behind it answers: the server refuses the " +
		"edge's token, or names an address outside the prefix",
		"Traefik's log says which (search for: was stopped); give backendTokenFile the token that the server knows, " +
			"or add its inner origin to backendOrigins"},
	"host-refused": {Fail, "the server behind the plugin checks the Host header and does not know this name",
		"set passHostHeader: false on its service in Traefik (loadBalancer: {passHostHeader: false, " +
			"servers: …}), or add the name to what the server allows"},
	"past-the-plugin": {Fail, "requests reach sandboxd without passing the plugin: Funnel or the router points past " +
		"Traefik or has no middleware",
		"point Funnel at Traefik's port (tailscale funnel --bg https+insecure://127.0.0.1:8443) and attach the " +
			"middleware to the router"},
	"prefix-stripped": {Fail, "the path prefix is removed before the plugin sees it",
		"mount Funnel at / (never --set-path) and put StripPrefix, if any, after the plugin"},
	"oauth-metadata": {Fail, "a client that finds OAuth metadata ignores a configured token and tries to log in",
		"route /.well-known/oauth-* of this host to the plugin (see traefik-dynamic.yml), or serve the identity " +
			"provider on a host of its own"},
	"token-refused": {Fail, "the token is not one that the plugin knows, or it has expired",
		"make run and make up read .sallyport/edge/client-token again when it changes: give doctor and your client " +
			"what is in it now. With Traefik and sha256 in traefik-dynamic.yml: compare it with sallyport token hash " +
			"FILE, then the expires date"},
	"forbidden": {Fail, "the token is known, but the request was refused",
		"sandboxd's log or the plugin's audit line says why; a public name that is not in MCP_ALLOWED_HOSTS, an " +
			"Origin and the edge's headers are the usual reasons"},
	"rate-limited": {Warn, "the token or this address has used up its rate",
		"wait a minute, then raise requestsPerMinute or find the client that loops"},

	// The stream.
	"not-a-stream": {Fail, "something else than an MCP server answers on the SSE path",
		"compare the router's service and MCP_BASE_PATH with this address"},
	"buffered": {Fail, "a proxy on the way holds the stream back until it ends",
		"remove Traefik's buffering middleware from this router; in nginx set proxy_buffering off"},
	"delayed": {Warn, "the first event comes long after the headers: a proxy on the way collects before it sends",
		"look for a flush interval or a minimum size in each proxy on the way"},
	"endpoint-origin": {Fail, "the server tells clients to post their token to another origin; careful clients " +
		"refuse, careless ones leak it",
		"the backend builds an absolute URL: put the plugin before it, which rewrites the endpoint"},
	"endpoint-path": {Fail, "clients are told to post outside the prefix, where no router matches: the connection " +
		"opens and every message fails",
		"do not strip the prefix before sandboxd (MCP_BASE_PATH is the public prefix); for a foreign backend set " +
			"pathPrefix and backendPath in the plugin"},
	"idle-cut": {Fail, "something on the way closes streams that are quiet",
		"raise the idle timeout above 30 s in each proxy (Traefik: respondingTimeouts.idleTimeout, writeTimeout 0) " +
			"and keep proxies from dropping comment lines"},

	// The tools.
	"mcp-failed": {Fail, "the MCP conversation over this transport broke off",
		"the proof names the step; sandboxd's log shows the same request"},
	"tool-not-granted": {Warn, "the token's grants leave out one of the three tools; right if you meant it",
		"add it to tools of this token in the middleware's configuration"},
	"tool-failed": {Fail, "a tool answers with an error where it should work",
		"the proof has the tool's own words; a full disk and a workspace of another owner are the usual reasons"},
	"jail-off": {Warn, "commands run without the kernel's restrictions (MCP_JAIL=group)",
		"use Linux 6.12 or newer and take MCP_JAIL away"},
	"network-open": {Warn, "commands can connect to services of this host, also to those that hold no password " +
		"because only the host could reach them",
		"take MCP_COMMAND_NETWORK=container away, or bind the listed services to 127.0.0.1"},

	// Traefik, Docker, Funnel.
	"traefik-unknown": {Warn, "Traefik's version is not known from here, and versions before 3.7.18 have holes that " +
		"matter here",
		"name its API with -traefik-api, or run traefik version; one of your own building must be of 3.7.18 or newer"},
	"traefik-old": {Warn, "this Traefik lacks fixes for requests that slip past a guarded router (a path parameter " +
		"after dot segments, fixed in 3.7.18)",
		"use Traefik 3.7.18 or newer"},
	"traefik-router": {Fail, "Traefik has dropped a router or middleware that uses the plugin",
		"correct the mistake that the proof names, and after make up: docker compose restart traefik"},
	"docker-old": {Warn, "this Docker or runc has known ways out of a container (runc before 1.2.8)",
		"update Docker Engine and runc"},
	"server-mounts-workspace": {Fail, "a command of the sandbox can swap what a server's container mounts for a link " +
		"to anything on this host, which that container then reads",
		"remove the entry's volume from config/mcp.json and name both paths in SALLYPORT_FORBIDDEN_SOURCES in .env " +
			"(make env writes it); the sandbox's own tools are for files of the workspace"},
	"container-loose": {Fail, "the container runs without one of the restrictions that docker-compose.yml sets",
		"start it from docker-compose.yml, or add the flags that the proof names (docs/docker.md)"},
	"funnel-past-traefik": {Fail, "Funnel or Serve points past Traefik, so the whole hostname reaches something that " +
		"is not the edge",
		"tailscale funnel reset, then tailscale funnel --bg https+insecure://127.0.0.1:8443"},
	"funnel-set-path": {Fail, "Funnel is mounted at a path, and it strips that path from each request",
		"tailscale funnel reset, then mount it at /: tailscale funnel --bg https+insecure://127.0.0.1:8443"},
}
