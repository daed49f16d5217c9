package plan

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// In an installation plan names a workspace that reaches it. The folder
// "workspace", folders beside it and what the server keeps for itself do not.
func TestWorkspaceReachesTheInstallation(t *testing.T) {
	base := t.TempDir()
	here := filepath.Join(base, "clone")
	if err := os.Mkdir(here, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(here)
	if got := owned(base); len(got) > 0 {
		t.Errorf("outside an installation: %v", got)
	}
	if err := os.WriteFile("docker-compose.yml", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for source, reaches := range map[string]bool{
		base: true, here: true, here + "/plugin": true, "/": true, here + "/.sallyport": true, here + "/.sallyport/edge": true,
		here + "/workspace": false, here + "/workspace/a": false, base + "/clones": false, here + "/.sallyport/audit/sandboxd": false, here + "/.sallyport/run/sandboxd": false,
	} {
		got := owned(source)
		if reaches != (len(got) == 1 && strings.Contains(got[0].What, here) && strings.Contains(got[0].What, source)) {
			t.Errorf("%s: %v", source, got)
		}
	}
}
