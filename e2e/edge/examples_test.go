package edge

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The README's example does what it says.
func TestExampleOfTheReadme(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(rig.ServeExample))
	defer backend.Close()
	token, _ := rig.NewToken(t)
	yaml := rig.Examples(t, "../README.md", "yaml", token)[1]
	yaml = strings.NewReplacer("http://127.0.0.1:9000", backend.URL, "websecure", "web", "      tls: {}\n", "").Replace(yaml)
	tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: yaml})
	rig.CheckExample(t, tr.Web+"/notes/mcp", token)
}

// The plugin page's examples in YAML and TOML do what the page says.
func TestDocumentedExamples(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(rig.ServeExample))
	defer backend.Close()
	token, _ := rig.NewToken(t)
	here := func(text string) string {
		return strings.NewReplacer("http://127.0.0.1:3001", backend.URL, "websecure", "web", ", tls: {}", "").Replace(text)
	}
	yaml := here(rig.Examples(t, "plugin.md", "yaml", token)[0])
	t.Run("YAML", func(t *testing.T) {
		tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: yaml})
		rig.CheckExample(t, tr.Web+"/mcp/mcp", token)
	})
	t.Run("TOML", func(t *testing.T) {
		before, rest, _ := strings.Cut(yaml, "  middlewares:\n")
		_, after, found := strings.Cut(rest, "  services:\n")
		if !found {
			t.Fatalf("the example in YAML has another form: %s", yaml)
		}
		tr := rig.StartTraefik(t, rig.TraefikOptions{Dynamic: before + "  services:\n" + after, TOML: rig.Examples(t, "plugin.md", "toml", token)[0]})
		rig.CheckExample(t, tr.Web+"/mcp/mcp", token)
	})
}
