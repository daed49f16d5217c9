package mcpjson

import (
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// known are the fields of the entry's type, each with its reader.
func known(r *strictjson.Reader, e *Entry) map[string]func(string, any) {
	skip := func(string, any) {}
	fields := map[string]func(string, any){
		"type":        skip,
		"hub":         func(f string, v any) { e.Hub = r.Flag(f, v) },
		"keepAlive":   func(f string, v any) { e.KeepAlive = r.Flag(f, v) },
		"idleMinutes": func(f string, v any) { e.IdleMinutes = r.Number(f, v, 0.01, 525600) },
		"timeout":     func(f string, v any) { e.TimeoutMS = r.Whole(f, v, 1, 86400000) },
		"alwaysLoad":  skip, // Claude Code's own: how its client loads tool lists
	}
	add := func(name string, read func(string, any)) { fields[name] = read }
	if e.Type != Docker {
		add("shared", func(f string, v any) { e.Shared = r.Flag(f, v) })
	}
	switch e.Type {
	case Docker:
		dockerFields(r, e, add)
	case Unix:
		add("socket", func(f string, v any) { e.Socket = r.Text(f, v) })
	case TCP:
		add("host", func(f string, v any) { e.Host = r.Text(f, v) })
		add("port", func(f string, v any) { e.Port = int(r.Whole(f, v, 1, 65535)) })
	case Stdio:
		add("command", func(f string, v any) { e.Command = r.Text(f, v) })
		add("args", func(f string, v any) { e.Args = r.List(f, v) })
		add("env", func(f string, v any) { e.Env = r.Pairs(f, v) })
	case HTTP, SSE:
		add("url", func(f string, v any) { e.URL = r.Text(f, v) })
		add("headers", func(f string, v any) { e.Headers = r.Pairs(f, v) })
	}
	return fields
}

// advice for fields that people know from elsewhere and that must not exist
// here; "" where there is nothing more to say than that it is unknown.
func advice(kind, key string) string {
	switch key {
	case "privileged", "capAdd", "cap_add", "devices", "gpus", "securityOpt", "security_opt", "pid", "ipc",
		"uts", "userns", "cgroupns", "runtime", "sysctls", "mounts", "volumesFrom", "volumes_from",
		"groupAdd", "group_add", "restart", "extraHosts", "extra_hosts", "privilege", "cgroupParent":
		if kind == Docker {
			return "can only weaken the sandbox and cannot be set"
		}
	case "args":
		if kind == Docker {
			return `is not a field of docker entries: write the whole argument list in "command"`
		}
	case "shared":
		return "cannot be set: all clients share a container anyway"
	case "cwd":
		return "cannot be set: a stdio server has a private working directory"
	case "envFile":
		return `is not read: put its lines into config/hub.env and name each in "env": {"KEY": "${KEY}"}`
	case "disabled":
		return "does not exist: take the entry out"
	case "autoApprove", "alwaysAllow", "disabledTools":
		return `does not exist: which tools may be called is in the token's tools at the edge ("SERVER/TOOL")`
	case "headersHelper":
		return `is not supported, it would run a command in the hub: write "headers" with ${VAR}`
	case "oauth":
		return `is not supported, nobody is there to log in: write "headers" with ${VAR}`
	}
	return ""
}

var (
	envName    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")
	hostName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,252}$`)
)

// check what the fields mean together.
func check(r *strictjson.Reader, e *Entry) {
	for name := range e.Env {
		if !envName.MatchString(name) {
			r.Fail("env."+name, "is not a variable name of letters, digits and _")
		}
	}
	switch e.Type {
	case Docker:
		checkDocker(r, e)
	case Unix:
		checkSocket(r, e)
	case TCP:
		if _, err := netip.ParseAddr(e.Host); err != nil && e.Host != "" && !hostName.MatchString(e.Host) {
			r.Fail("host", "must be a host name or an address, without a port")
		}
	case Stdio:
		if base := path.Base(e.Command); slices.Contains([]string{"npx", "uvx", "bunx", "pipx"}, base) {
			r.Warnings = append(r.Warnings, base+" would download the server at each start, "+
				"and stdio servers have no network: install it and name its program")
		}
	case HTTP, SSE:
		if !strings.Contains(e.URL, "${") && e.URL != "" {
			checkRemote(r, e)
		}
	}
	for _, literal := range [][2]string{{"socket", e.Socket}, {"host", e.Host}} {
		if strings.Contains(literal[1], "${") {
			r.Fail(literal[0], "must be written out, without ${VAR}")
		}
	}
	checkExpressions(r, e)
}

func checkSocket(r *strictjson.Reader, e *Entry) {
	switch {
	case e.Socket == "":
	case !path.IsAbs(e.Socket) || path.Clean(e.Socket) != e.Socket || len(e.Socket) > 107:
		r.Fail("socket", "must be an absolute path of at most 107 bytes, without . and ..")
	case path.Base(e.Socket) == "docker.sock":
		r.Fail("socket", "names a Docker or proxy socket, which no client of the hub may talk to")
	}
}

// ownHeaders are set by the hub for each request.
var ownHeaders = []string{"host", "connection", "content-length", "content-type", "transfer-encoding", "accept",
	"upgrade", "te", "trailer", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "last-event-id"}

// checkRemote checks the address and headers of an http or sse entry.
func checkRemote(r *strictjson.Reader, e *Entry) {
	u, err := url.Parse(e.URL)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || (u.Scheme != "http" && u.Scheme != "https"):
		r.Fail("url", "must be an address such as https://host/mcp")
	case u.User != nil:
		r.Fail("url", `must not hold a name or password: put them into "headers"`)
	case u.Fragment != "":
		r.Fail("url", "must not have a #fragment")
	}
	for name, value := range e.Headers {
		switch {
		case !headerName.MatchString(name):
			r.Fail("headers."+name, "is not a header name")
		case slices.Contains(ownHeaders, strings.ToLower(name)):
			r.Fail("headers."+name, "is set by the hub itself")
		case strings.ContainsAny(value, "\r\n"):
			r.Fail("headers."+name, "must be one line")
		}
	}
}

// EnvName reports whether a name can be an environment variable's: letters,
// digits and _, at most 128 of them, the first no digit.
func EnvName(name string) bool { return envName.MatchString(name) }
