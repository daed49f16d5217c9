package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// In a container the workspace and the token have paths of their own. That one
// mount's source lies inside the other's is seen all the same; with the token
// beside the workspace the server starts.
func TestWorkspaceHoldsInstallation(t *testing.T) {
	d := rig.NeedImages(t)
	dir := rig.PublicDir(t)
	for _, name := range []string{"work/clone/.sallyport", "work/clone/workspace", "work/clone/plugin", "beside"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	token := filepath.Join(dir, "work/clone/.sallyport/token")
	if err := os.WriteFile(token, []byte(strings.Repeat("t", 43)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(workspace string) (string, error) {
		args := serve(t, "--tmpfs", "/nothing", "-v", filepath.Join(dir, workspace)+":/workspace", "-v", token+":/run/token:ro")
		at := slices.Index(args, "/workspace:exec,uid="+uid)
		args = slices.Delete(args, at-1, at+1)
		first := slices.IndexFunc(args, func(a string) bool { return strings.HasSuffix(a, ":/run/token:ro") })
		args = slices.Delete(args, first-1, first+1)
		// The health command fails once the server has ended; -d would hide the reason.
		return d.Try(append([]string{"run", "--rm", "--network", "none", "--entrypoint", "timeout"}, insert(args, "5")...)...)
	}
	for _, workspace := range []string{"work", "work/clone", "work/clone/plugin"} {
		out, err := run(workspace)
		if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(out+err.Error(), "/workspace") {
			t.Errorf("%s: %v\n%s", workspace, err, out)
		}
	}
	for _, workspace := range []string{"beside", "work/clone/workspace"} {
		if out, err := run(workspace); err == nil || !strings.Contains(err.Error(), "exit status 124") {
			t.Errorf("%s: it did not serve until timeout(1) ended it: %v\n%s", workspace, err, out)
		}
	}
}

// insert puts the seconds of timeout(1) before the program.
func insert(args []string, seconds string) []string {
	at := slices.Index(args, "/sandboxd")
	return slices.Insert(slices.Clone(args), at, seconds)
}
