package doctor

import "testing"

// What lies in a directory that the sandbox may change is named. Beside it
// nothing is said.
func TestMounts(t *testing.T) {
	box := container{Name: "box", Mounts: []mount{
		{"bind", "/nowhere/work", "/workspace", true},
		{"bind", "/nowhere/sallyport/.sallyport/sandbox-token", "/run/secrets/sandbox-token", false},
		{"volume", "/var/lib/docker/volumes/x", "/private", true},
	}}
	for checkout, held := range map[string]bool{"": false, "/nowhere/sallyport": false, "/nowhere/work/sallyport": true, "/nowhere/work": true, "/nowhere/workshop": false} {
		if got := box.holds(checkout); held != (got != "") {
			t.Errorf("%s: %q", checkout, got)
		}
	}
	loose := box
	loose.Mounts = append([]mount{{"bind", "/nowhere", "/workspace", true}}, box.Mounts[1:]...)
	if loose.holds("") == "" {
		t.Error("a token inside the workspace is not named")
	}
}
