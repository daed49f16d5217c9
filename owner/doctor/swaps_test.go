package doctor

import "testing"

// A server's container that mounts something of the workspace is named, one that
// mounts another place is not; a mount that the sandbox only reads harms nobody.
func TestSwappableMounts(t *testing.T) {
	box := container{Name: "/sandbox", Mounts: []mount{{"bind", "/srv/work", "/workspace", true}, {"bind", "/srv/token", "/run/secrets/token", false}}}
	for source, bad := range map[string]bool{"/srv/work": true, "/srv/work/docs": true, "/srv": true, "/srv/workshop": false, "/srv/token": false} {
		server := container{Name: "/mcp-sandbox-x", Mounts: []mount{{"bind", source, "/data", false}}}
		if got := box.swaps([]container{server}); (got != "") != bad {
			t.Errorf("%s: %q", source, got)
		}
	}
}
