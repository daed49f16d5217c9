package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What login links is what it can do: of ours, what every server
// shares and nothing that runs commands or speaks to Docker; of others, what docs/decisions/0100-login.md names.
func TestWhatLoginLinks(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	const ours = "github.com/sallyport-dev/sallyport/"
	allowed := []string{
		ours + "login", ours + "internal/audit", ours + "internal/cli", ours + "internal/config",
		ours + "internal/health", ours + "internal/httpd",
		ours + "internal/netclass", ours + "internal/process", ours + "internal/procfs", ours + "internal/publicdial",
		ours + "internal/strictjson", ours + "internal/terminal",
		"github.com/go-jose/go-jose/v4", "github.com/go-webauthn/", "golang.org/x/",
		// Behind go-webauthn: CBOR, TPM statements, tokens of metadata services, uuids.
		"github.com/fxamacker/cbor/v2", "github.com/x448/float16", "github.com/google/go-tpm",
		"github.com/golang-jwt/jwt/v5", "github.com/google/uuid",
		"github.com/go-viper/mapstructure/v2", "github.com/tinylib/msgp", "github.com/philhofer/fwd",
	}
	all := strings.Fields(string(out))
	for _, path := range all {
		if !slices.ContainsFunc(allowed, func(prefix string) bool { return strings.HasPrefix(path, prefix) }) {
			t.Errorf("login links %s", path)
		}
	}
	t.Logf("%d packages that are not the standard library's", len(all))
}
