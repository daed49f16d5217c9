package proxy

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// TestPullMissing fetches from a registry on loopback, by tag and by digest,
// and only for the entry that says so.
func TestPullMissing(t *testing.T) {
	b := prepare(t)
	server := httptest.NewServer(registry.New())
	t.Cleanup(server.Close)
	name := strings.TrimPrefix(server.URL, "http://") + "/mcp/" + b.docker.Name
	b.docker.Run("tag", b.image, name+":v1")
	out := b.docker.Run("push", name+":v1")
	b.docker.Run("rmi", name+":v1")
	_, digest, found := strings.Cut(out, "digest: ")
	digest, _, _ = strings.Cut(digest, " ")
	if !found || !strings.HasPrefix(digest, "sha256:") {
		t.Fatalf("docker push names no digest: %s", out)
	}
	t.Cleanup(func() { b.docker.Try("rmi", "-f", name+":v1", name+"@"+digest) })
	b.config(`
		"never":  {"type": "docker", "image": "` + name + `:v1"},
		"tag":    {"type": "docker", "image": "` + name + `:v1", "pull": "missing"},
		"digest": {"type": "docker", "image": "` + name + `@` + digest + `", "pull": "missing"},
		"wrong":  {"type": "docker", "image": "` + name + `@sha256:` + strings.Repeat("0", 64) + `", "pull": "missing"}`)
	b.start()
	if reply := b.dial().ensure("never", nil); reply.OK || !strings.Contains(reply.Error, `"pull" is "never"`) {
		t.Errorf("never: %+v", reply)
	}
	for _, server := range []string{"digest", "tag"} {
		if got := b.run(server, nil).sh("echo pulled"); got != "pulled" {
			t.Errorf("%s: %q", server, got)
		}
	}
	if reply := b.dial().ensure("wrong", nil); reply.OK || !strings.Contains(reply.Error, "pulling image") {
		t.Errorf("wrong: %+v", reply)
	}
}
