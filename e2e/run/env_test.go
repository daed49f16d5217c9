package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// make env refuses a workspace that contains the installation or lies in it, and
// writes nothing then. Only the folder "workspace" and folders beside it may be
// served; an .env from before is looked at again.
func TestEnvRefusesTheInstallation(t *testing.T) {
	c := rig.NewCheckout(t, uint32(os.Geteuid()))
	real := func(name string) string {
		path, err := filepath.EvalSymlinks(filepath.Join(c.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	refused := func(workspace string) {
		t.Helper()
		out, err := c.Command("make", "env", "WORKSPACE="+workspace).CombinedOutput()
		if err == nil || !strings.Contains(string(out), real(workspace)) || !strings.Contains(string(out), real(".")) {
			t.Errorf("%s: %v\n%s", workspace, err, out)
		}
	}
	if err := os.Symlink(c.Dir, filepath.Join(filepath.Dir(c.Dir), "link")); err != nil {
		t.Fatal(err)
	}
	for _, workspace := range []string{"..", ".", "plugin", "../link", "../link/deploy"} {
		refused(workspace)
		if _, err := os.Stat(filepath.Join(c.Dir, ".env")); err == nil {
			t.Fatalf("%s: it wrote .env", workspace)
		}
	}
	c.Make("env", "WORKSPACE=../beside")
	env := filepath.Join(c.Dir, ".env")
	was, err := os.ReadFile(env)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(env, []byte(strings.ReplaceAll(string(was), real("../beside"), real(".."))), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := c.Command("make", "env").CombinedOutput(); err == nil {
		t.Errorf("an .env that names the parent folder: %s", out)
	}
	if err := os.Remove(env); err != nil {
		t.Fatal(err)
	}
	c.Make("env", "WORKSPACE=workspace")
}

// make hands a folder's name on as it was written: no quote and no dollar in it
// is read by make or by a shell.
func TestWorkspaceNamesAreTakenAsWritten(t *testing.T) {
	c := rig.NewCheckout(t, uint32(os.Geteuid()))
	for _, name := range []string{`a"b`, "a$b", "$(HOME)", "$(shell touch made)", "`touch made`", "with blank", ";touch made", `back\slash`} {
		os.Remove(filepath.Join(c.Dir, ".env"))
		if err := os.MkdirAll(filepath.Join(c.Dir, "../beside", name), 0o755); err != nil {
			t.Fatal(err)
		}
		out := c.Make("env", "WORKSPACE=../beside/"+name)
		env, err := os.ReadFile(filepath.Join(c.Dir, ".env"))
		if err != nil || !strings.Contains(string(env), "/beside/"+name+"'\n") {
			t.Errorf("%s: %v\n%s%s", name, err, out, env)
		}
		if _, err := os.Stat(filepath.Join(c.Dir, "made")); err == nil {
			t.Fatalf("%s was run", name)
		}
	}
}
