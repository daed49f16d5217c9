package mcpjson

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

var (
	imageName  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,511}$`)
	digest     = regexp.MustCompile(`(^|@)sha256:[0-9a-f]{64}$`)
	objectName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{1,63}$`)
	setName    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)
	userName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63})?$`)
	memorySize = regexp.MustCompile(`^([1-9][0-9]{0,12})([bkmgBKMG]?)$`)
)

func dockerDefaults() DockerOptions {
	return DockerOptions{Pull: "never", Network: "none", Memory: 512 << 20, PidsLimit: 256,
		NanoCPUs: 1e9, ReadOnly: true, Tmpfs: map[string]string{"/tmp": TmpfsDefault}}
}

func dockerFields(r *strictjson.Reader, e *Entry, add func(string, func(string, any))) {
	c := &e.Container
	add("env", func(f string, v any) { e.Env = r.Pairs(f, v) })
	add("image", func(f string, v any) { c.Image = literal(r, f, v) })
	add("pull", func(f string, v any) {
		if c.Pull = literal(r, f, v); c.Pull != "never" && c.Pull != "missing" {
			r.Fail(f, `must be "never" or "missing"`)
		}
	})
	add("command", func(f string, v any) { c.Command = literals(r, f, v) })
	add("entrypoint", func(f string, v any) { c.Entrypoint = literals(r, f, v) })
	add("secretsFrom", func(f string, v any) { c.SecretsFrom = literal(r, f, v) })
	add("volumes", func(f string, v any) { c.Volumes = readAll(r, f, v, readVolume) })
	add("ports", func(f string, v any) { c.Ports = readAll(r, f, v, readPort) })
	add("network", func(f string, v any) { c.Network = literal(r, f, v) })
	add("memory", func(f string, v any) { c.Memory = readMemory(r, f, v) })
	add("pidsLimit", func(f string, v any) { c.PidsLimit = r.Whole(f, v, 1, 1<<20) })
	add("cpus", func(f string, v any) { c.NanoCPUs = int64(r.Number(f, v, 0.01, 1024)*1e9 + 0.5) })
	add("readOnly", func(f string, v any) { c.ReadOnly = r.Flag(f, v) })
	add("tmpfs", func(f string, v any) { c.Tmpfs = readTmpfs(r, f, v) })
	add("user", func(f string, v any) { c.User = literal(r, f, v) })
}

// literal is a text that the proxy must be able to check: a variable there
// would be a field that whoever sets the variable could choose.
func literal(r *strictjson.Reader, field string, v any) string {
	s := r.Text(field, v)
	if strings.Contains(s, "${") {
		r.Fail(field, "must be written out: only env values may use ${VAR}")
	}
	return s
}

func literals(r *strictjson.Reader, field string, v any) []string {
	list := r.List(field, v)
	for i, s := range list {
		if strings.Contains(s, "${") {
			r.Fail(fmt.Sprintf("%s[%d]", field, i), "must be written out: only env values may use ${VAR}")
		}
	}
	return list
}

func readAll[T any](r *strictjson.Reader, field string, v any, read func(string) (T, error)) []T {
	var all []T
	for i, s := range literals(r, field, v) {
		one, err := read(s)
		if err != nil {
			r.Fail(fmt.Sprintf("%s[%d] %q", field, i, s), "%v", err)
			continue
		}
		all = append(all, one)
	}
	return all
}

func readMemory(r *strictjson.Reader, field string, v any) int64 {
	var s string
	switch v := v.(type) {
	case string:
		s = v
	case json.Number:
		s = v.String()
	}
	if m := memorySize.FindStringSubmatch(s); m != nil {
		n, _ := strconv.ParseInt(m[1], 10, 64)
		n <<= map[string]int{"": 0, "b": 0, "k": 10, "m": 20, "g": 30}[strings.ToLower(m[2])]
		if n >= 6<<20 && n <= 1<<46 {
			return n
		}
	}
	r.Fail(field, `must be "384m", "1g" or a number of bytes, from 6m to 65536g`)
	return 0
}

// readPort reads [ip:]hostPort:containerPort[/proto].
func readPort(s string) (Port, error) {
	p := Port{IP: "127.0.0.1", Proto: "tcp"}
	ports, proto, found := strings.Cut(s, "/")
	if found {
		p.Proto = proto
	}
	if i := strings.LastIndexByte(ports, ':'); i >= 0 {
		p.Container, ports = portNumber(ports[i+1:]), ports[:i]
	}
	host := ports
	if i := strings.LastIndexByte(ports, ':'); i >= 0 {
		ip, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(ports[:i], "["), "]"))
		if err != nil || ip.Zone() != "" {
			return p, fmt.Errorf("%q is not an address", ports[:i])
		}
		p.IP, host = ip.String(), ports[i+1:]
	}
	p.Host = portNumber(host)
	if p.Host == 0 || p.Container == 0 || (p.Proto != "tcp" && p.Proto != "udp" && p.Proto != "sctp") {
		return p, fmt.Errorf("must be [ip:]hostPort:containerPort[/tcp|udp|sctp]")
	}
	return p, nil
}

func portNumber(s string) int {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || strconv.FormatUint(n, 10) != s {
		return 0
	}
	return int(n)
}

// checkDocker checks what single readers cannot see.
func checkDocker(r *strictjson.Reader, e *Entry) {
	c := &e.Container
	if c.Image != "" && (!imageName.MatchString(c.Image) || path.Clean("/"+c.Image) != "/"+c.Image) {
		r.Fail("image", "is not the name of an image")
	} else if !digest.MatchString(c.Image) {
		r.Warnings = append(r.Warnings, "image: a tag can be moved to other content; name a digest (image@sha256:…)")
	}
	if c.Pull == "missing" && strings.HasPrefix(c.Image, "sha256:") {
		r.Fail("pull", `"missing" cannot fetch an image by its id`)
	}
	if c.SecretsFrom != "" && !setName.MatchString(c.SecretsFrom) {
		r.Fail("secretsFrom", "must be the name of a secrets file without .env: letters, digits, - and _")
	}
	if c.Network == "host" || !objectName.MatchString(c.Network) {
		r.Fail("network", "must be none or the name of a Docker network; host and container:… are never allowed")
	}
	if c.Network == "none" && len(c.Ports) > 0 {
		r.Fail("ports", `nothing can be published while "network" is none`)
	}
	for _, p := range c.Ports {
		if ip, err := netip.ParseAddr(p.IP); err == nil && !ip.IsLoopback() {
			r.Warnings = append(r.Warnings, fmt.Sprintf("ports: %d is open to other machines on %s", p.Host, p.IP))
		}
	}
	if err := CheckUser(c.User); err != nil {
		r.Fail("user", "%v", err)
	}
	checkTargets(r, c)
}

// Named reports whether a user or group in s is given by name.
func Named(s string) bool { return strings.Trim(s, "0123456789:") != "" }

// CheckUser refuses root as a number or by that name, in every spelling; "" is
// for the image to decide.
func CheckUser(s string) error {
	user, group, _ := strings.Cut(s, ":")
	if s != "" && !userName.MatchString(s) {
		return fmt.Errorf("%q is not user or user:group", s)
	}
	for _, id := range []string{user, group} {
		n, err := strconv.ParseUint(id, 10, 64)
		switch {
		case id == "root" || (err == nil && n == 0):
			return fmt.Errorf("root is refused, also as the group: name another user, such as 65532:65532")
		case id != "" && !Named(id) && (err != nil || n >= 1<<31):
			return fmt.Errorf("%s is not a user number", id)
		}
	}
	return nil
}
