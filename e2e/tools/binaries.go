package tools

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// TraefikVersion is the newest version that builds as a Go tool with what the
// module proxy serves.
const TraefikVersion = "3.7.13"

const composeVersion = "2.40.3"

// Traefik returns the path of a Traefik: $TRAEFIK_BIN, one on PATH, or one built
// from its Go module (5 minutes on two cores the first time).
func Traefik() (string, error) {
	if bin := os.Getenv("TRAEFIK_BIN"); bin != "" {
		return exec.LookPath(bin)
	}
	if bin, err := exec.LookPath("traefik"); err == nil {
		return bin, nil
	}
	return BuiltTraefik()
}

// BuiltTraefik returns the path of the static Traefik built from its Go module.
// It has no ACME DNS provider, and its basicAuth and digestAuth refuse everyone:
// see build/traefik.
func BuiltTraefik() (string, error) {
	return build("traefik", TraefikVersion, buildTraefik)
}

// Compose returns the path of a docker compose command of version 2 that runs
// without the docker command in front.
func Compose() (string, error) {
	if bin := os.Getenv("COMPOSE_BIN"); bin != "" {
		return exec.LookPath(bin)
	}
	return build("compose", composeVersion, func(src, bin string) error {
		return run(src, static, "go", "build", "-o", bin, "github.com/docker/compose/v2/cmd")
	})
}

// static makes a binary that also runs in an image without a C library.
var static = []string{"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off"}

// build caches the binary that make builds in a copy of the folder build/what.
func build(what, version string, make func(src, bin string) error) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	from := filepath.Join(root, "e2e", "build", what)
	hash, err := hashOf(from, runtime.Version(), runtime.GOARCH)
	if err != nil {
		return "", err
	}
	return once(what+"-"+version+"-"+hash, func(bin string) error {
		src, err := os.MkdirTemp("", "sallyport-build-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(src)
		if err := os.CopyFS(src, os.DirFS(from)); err != nil {
			return err
		}
		return make(src, bin)
	})
}

// buildTraefik vendors, because an overlay may not touch the module cache, and
// replaces the list of ACME DNS providers, whose SDKs are not all served.
// -e: go mod vendor is told to go on without those.
func buildTraefik(src, bin string) error {
	if err := run(src, static, "go", "mod", "vendor", "-e"); err != nil {
		return err
	}
	providers := filepath.Join(src, "vendor/github.com/go-acme/lego/v5/providers/dns/zz_gen_dns_providers.go")
	overlay, err := json.Marshal(map[string]map[string]string{
		"Replace": {providers: filepath.Join(src, "noproviders.go.txt")},
	})
	if err != nil {
		return err
	}
	file := filepath.Join(src, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o644); err != nil {
		return err
	}
	return run(src, static, "go", "build", "-trimpath", "-mod=vendor", "-overlay", file,
		"-o", bin, "github.com/traefik/traefik/v3/cmd/traefik")
}
