package plan

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// Without Docker Compose the first sentence says so, and what plan is for.
func TestWithoutCompose(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", t.TempDir())
	var out, errs bytes.Buffer
	if code := Main(t.Context(), nil, &out, &errs); code != 1 && code != 2 || !strings.Contains(errs.String(), "Docker Compose is not installed; plan reads the compose stack, not make run") {
		t.Errorf("%d: %s", code, errs.String())
	}
}

// Profiles that are off are named, since the plan does not have them. The twin has
// them on.
func TestProfilesThatAreOff(t *testing.T) {
	in := good(t)
	for on, want := range map[string]bool{"traefik sandboxd": true,
		"traefik sandboxd hub dockerproxy": false} {
		dir := t.TempDir()
		docker := "#!/bin/sh\ncase \"$*\" in\n*json) cat stack.json ;;\n*profile*) echo hub dockerproxy traefik sandboxd ;;\n" +
			"*services) echo " + on + " ;;\nesac\n"
		if err := errors.Join(os.WriteFile(dir+"/docker", []byte(docker), 0o755), os.WriteFile(dir+"/stack.json", []byte(in.compose), 0o600),
			os.WriteFile(dir+"/traefik-dynamic.yml", []byte(in.edge), 0o600)); err != nil {
			t.Fatal(err)
		}
		t.Chdir(dir)
		t.Setenv("PATH", dir+":/usr/bin:/bin")
		var out, errs bytes.Buffer
		code := Main(t.Context(), nil, &out, &errs)
		if got := strings.Contains(out.String(), "Not in this plan, since their profiles are off: dockerproxy, hub."); got != want {
			t.Errorf("%s: %d %s%s", on, code, out.String(), errs.String())
		}
	}
}
