package rig

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Chain is Traefik with the committed traefik-dynamic.yml, the plugin and a
// sandbox behind it.
type Chain struct {
	*Traefik
	Sandbox *Sandboxd
	Base    string // https://127.0.0.1:port/mcp-sandbox, what a client is given
	Token   string // the client's token
	Files   Files  // where the configuration's files lie in this test
}

// ChainOptions says how a chain starts.
type ChainOptions struct {
	FastProxy bool
	Sandboxd  SandboxdOptions
	Edit      func(yaml string) string // changes the dynamic configuration before the start
	Args      []string                 // further static configuration of Traefik
	Files     Files                    // what other servers of the chain need; the sandbox's are filled in
	Secure    string                   // host:port of websecure; default: a free one
	Env       []string                 // further environment of Traefik, for templates
}

// StartChain starts a sandbox and a Traefik that serves it at Base.
func StartChain(t testing.TB, o ChainOptions) *Chain {
	t.Helper()
	o.Sandboxd.Env = append([]string{"MCP_REQUIRE_EDGE=true"}, o.Sandboxd.Env...)
	c := &Chain{Sandbox: StartSandboxd(t, o.Sandboxd)}
	var file string
	c.Token, file = NewToken(t)
	c.Files = o.Files
	c.Files.EdgeDir, c.Files.SandboxToken, c.Files.SandboxAddr = filepath.Dir(file), c.Sandbox.TokenFile, c.Sandbox.Addr
	if err := os.Rename(file, filepath.Join(c.Files.EdgeDir, "client-token")); err != nil {
		t.Fatal(err)
	}
	yaml := c.Files.Dynamic(t)
	if o.Edit != nil {
		yaml = o.Edit(yaml)
	}
	c.Traefik = StartTraefik(t, TraefikOptions{Dynamic: yaml, FastProxy: o.FastProxy, Args: o.Args, Secure: o.Secure, Env: o.Env})
	c.Base = c.WebSecure + "/mcp-sandbox"
	return c
}

// Files says where the things lie that traefik-dynamic.yml names by fixed paths
// and ports. What is empty gets a stand-in.
type Files struct {
	EdgeDir                string // the folder of client-token
	SandboxToken, HubToken string // backend token files
	SandboxAddr, HubAddr   string // host:port
	LoginAddr, RevokedDir  string // of login, where it is on
}

// Dynamic returns the committed traefik-dynamic.yml with these places.
func (f Files) Dynamic(t testing.TB) string {
	t.Helper()
	if f.HubToken == "" {
		_, f.HubToken = NewToken(t)
	}
	if f.SandboxToken == "" {
		_, f.SandboxToken = NewToken(t)
	}
	data, err := os.ReadFile(filepath.Join(Root(t), "traefik-dynamic.yml"))
	if err != nil {
		t.Fatal(err)
	}
	return f.Replace(string(data))
}

// Replace puts these places into a dynamic configuration that names the fixed
// ones. An address that is not given is port 9 (discard), where nobody listens.
func (f Files) Replace(yaml string) string {
	return strings.NewReplacer(
		"127.0.0.1:18080", cmp.Or(f.SandboxAddr, "127.0.0.1:9"), "127.0.0.1:18081", cmp.Or(f.HubAddr, "127.0.0.1:9"),
		"127.0.0.1:18083", cmp.Or(f.LoginAddr, "127.0.0.1:9"), "/run/login-revoked", cmp.Or(f.RevokedDir, "/nonexistent"),
		"/run/secrets/edge", f.EdgeDir,
		"/run/secrets/sandbox-token", f.SandboxToken, "/run/secrets/hub-token", f.HubToken,
	).Replace(yaml)
}
