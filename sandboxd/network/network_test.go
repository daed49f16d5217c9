package network_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/sandboxd/network"
)

func TestEnviron(t *testing.T) {
	base := []string{"HOME=/h", "JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=/t"}
	env := network.Environ(base)
	for _, want := range []string{"HOME=/h", "http_proxy=http://127.0.0.1:3128", "HTTPS_PROXY=http://127.0.0.1:3128", "NODE_USE_ENV_PROXY=1",
		"no_proxy=localhost,127.0.0.1,::1", "npm_config_https_proxy=http://127.0.0.1:3128", "PIP_PROXY=http://127.0.0.1:3128"} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is missing in %q", want, env)
		}
	}
	java := slices.DeleteFunc(slices.Clone(env), func(s string) bool { return !strings.HasPrefix(s, "JAVA_TOOL_OPTIONS=") })
	if len(java) != 1 || !strings.Contains(java[0], "-Djava.io.tmpdir=/t -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128") {
		t.Errorf("Java gets %q", java)
	}
	if len(base) != 2 || base[1] != "JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=/t" {
		t.Errorf("the base was changed: %q", base)
	}
	names := map[string]bool{}
	for _, pair := range env {
		name, _, _ := strings.Cut(pair, "=")
		if names[name] {
			t.Errorf("%s is there twice: which one counts differs from program to program", name)
		}
		names[name] = true
	}
}

func TestDescribe(t *testing.T) {
	for want, rules := range map[string][]string{
		"no host is on yours":        nil,
		"a.example, *.b.example":     {"a.example", "*.b.example"},
		"the hosts of the owner's l": {"*"},
	} {
		if got := network.Describe(rules); !strings.Contains(got, want) {
			t.Errorf("%v: %q", rules, got)
		}
	}
}
