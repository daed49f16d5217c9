package hosts_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/owner/hosts"
)

// install puts stand-ins of the tools, and nothing else but a shell, on PATH.
func install(t *testing.T, tools map[string]string) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range tools {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
}

// What a mirror's owner has configured is what comes out, each host once.
func TestMirrors(t *testing.T) {
	install(t, map[string]string{
		"go":      `echo '{"GOPROXY":"https://mirror.example/go|http://old.example:8081,direct","GOSUMDB":"sum.example+abc https://mirror.example/sum"}'`,
		"npm":     `echo '{"registry":"https://mirror.example/npm/","@own:registry":"https://npm.own.example:8443/","other":"https://no.example"}'`,
		"pip":     `case "$*" in *list) echo "global.index-url='https://mirror.example:1/simple'"; echo "global.extra-index-url='https://extra.example/s'";; esac`,
		"apt-get": `echo http://deb.mirror.example/debian/; echo http://deb.mirror.example/security/; echo cdrom:x`,
	})
	rules, notes, err := hosts.Expand(t.Context(), []string{"go", "npm", "apt", "pip", "Own.Example:8443", "private:gitea.home:3000"})
	want := []string{"mirror.example", "http://old.example:8081", "npm.own.example:8443", "http://deb.mirror.example", "mirror.example:1", "extra.example",
		"own.example:8443", "private:gitea.home:3000"}
	slices.Sort(rules)
	slices.Sort(want)
	if err != nil || !slices.Equal(rules, want) {
		t.Errorf("%v: %q, want %q", err, rules, want)
	}
	if all := strings.Join(notes, "\n"); !strings.Contains(all, "modules that no proxy has") || !strings.Contains(all, "the host of its files") {
		t.Errorf("notes %q", notes)
	}
}

// cargo prints no index, so it is watched while it looks for one.
func TestCargoIsWatched(t *testing.T) {
	install(t, map[string]string{"cargo": `PATH=/usr/bin:/bin; exec 3<>/dev/null
		python3 - <<END
import os, socket
h, p = os.environ["CARGO_HTTP_PROXY"][7:].split(":")
s = socket.create_connection((h, int(p)))
s.sendall(b"CONNECT index.mirror.example:443 HTTP/1.1\r\nHost: index.mirror.example:443\r\n\r\n")
s.recv(100)
END
		exit 1`})
	rules, notes, err := hosts.Expand(t.Context(), []string{"cargo"})
	if err != nil || !slices.Equal(rules, []string{"index.mirror.example"}) || len(notes) != 1 {
		t.Errorf("%q, %q, %v", rules, notes, err)
	}
}

// A tool that is not there, and a word that is no rule, are mistakes that say
// what to write instead; all of them in one message.
func TestMistakes(t *testing.T) {
	install(t, map[string]string{"npm": "exit 1", "pip": "echo x"})
	var out, errs bytes.Buffer
	if code := hosts.Main(t.Context(), []string{"go", "npm", "nonsense!", "10.0.0.1", "*"}, &out, &errs); code != 2 || out.Len() != 0 {
		t.Errorf("code %d, %s", code, out.String())
	}
	for _, want := range []string{"there is no go here", "npm: ", "nonsense!", "10.0.0.1", `"*"`, "write"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("%q is missing in %s", want, errs.String())
		}
	}
	if code := hosts.Main(t.Context(), nil, &out, &errs); code != 2 {
		t.Errorf("without words: %d", code)
	}
}
