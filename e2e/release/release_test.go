// Package release_test makes a release, with one image where Docker is, and looks at what
// came of it.
package release_test

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

func make(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "./cmd/release"}, args...)...)
	cmd.Dir = filepath.Join(rig.Root(t), "e2e")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Two builds in two places agree (the command itself compares them), the checksums
// are those of the files, and each SBOM names what is linked.
func TestRelease(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dist")
	images := "none"
	if exec.Command("docker", "info").Run() == nil {
		if err := tools.Images(); err == nil {
			images = "dockerproxy"
			t.Setenv("GO_IMAGE", tools.GoImage)
		}
	}
	out, err := make(t, "-version", "v9.9.9", "-out", dir, "-images", images)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	binaries := 0
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		data, err := os.ReadFile(filepath.Join(dir, name))
		if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s: %v, not the sum %s", name, err, want)
		}
		if bytes.Contains(data, []byte(rig.Root(t)+"/")) {
			t.Errorf("%s holds a path of this machine", name)
		}
		if info, err := buildinfo.ReadFile(filepath.Join(dir, name)); err == nil {
			binaries++
			if static := setting(info, "CGO_ENABLED"); static != "0" {
				t.Errorf("%s: CGO_ENABLED=%s", name, static)
			}
		}
	}
	if binaries < 10 {
		t.Errorf("%d binaries, at least five programs for two architectures are expected", binaries)
	}
	var sbom struct {
		Components []struct{ Name string }
	}
	data, err := os.ReadFile(filepath.Join(dir, "sandboxd.cdx.json"))
	if err == nil {
		err = json.Unmarshal(data, &sbom)
	}
	if err != nil || !strings.Contains(string(data), "github.com/modelcontextprotocol/go-sdk") || len(sbom.Components) < 3 {
		t.Errorf("the SBOM of sandboxd: %v, %d components", err, len(sbom.Components))
	}
	t.Run("units", func(t *testing.T) { units(t, dir, string(sums)) })
	t.Run("image", func(t *testing.T) { loads(t, dir) })
}

// units looks whether every systemd unit of the checkout is there, with the place of the
// binary that it starts, which is part of the release too.
func units(t *testing.T, dir, sums string) {
	all, err := filepath.Glob(filepath.Join(rig.Root(t), "deploy", "*.service"))
	if err != nil || len(all) < 3 {
		t.Fatalf("the checkout's units: %v %v", all, err)
	}
	for _, unit := range all {
		text, err := os.ReadFile(filepath.Join(dir, filepath.Base(unit)))
		start := regexp.MustCompile(`(?m)^ExecStart=/usr/local/bin/([a-z-]+)`).FindSubmatch(text)
		if err != nil || start == nil || bytes.Contains(text, []byte("@PREFIX@")) || !strings.Contains(sums, "  "+filepath.Base(unit)+"\n") ||
			!strings.Contains(sums, "  "+string(start[1])+"-linux-amd64\n") {
			t.Errorf("%s: %v, starts %q", unit, err, start)
		}
	}
}

// loads takes the image out of its archive into this machine's engine, runs it, and
// looks at the layout, which every other tool reads.
func loads(t *testing.T, dir string) {
	d := rig.NeedImages(t)
	archive := filepath.Join(dir, "sallyport-dockerproxy.oci.tar")
	const tag = "sallyport-dockerproxy:v9.9.9"
	if said := d.Run("load", "--input", archive); !strings.Contains(said, tag) {
		t.Errorf("docker load: %s", said)
	}
	t.Cleanup(func() { _, _ = d.Try("image", "rm", tag) })
	if said := d.Run("run", "--rm", "--network", "none", tag, "version"); !strings.Contains(said, "sallyport") {
		t.Errorf("version: %s", said)
	}
	names, err := exec.Command("tar", "-tf", archive).Output()
	for _, name := range []string{"oci-layout", "index.json", "manifest.json", "blobs/sha256/"} {
		if err != nil || !strings.Contains(string(names), name) {
			t.Errorf("the archive has no %s: %v\n%s", name, err, names)
		}
	}
	bases, err := os.ReadFile(filepath.Join(dir, "BASES.txt"))
	if err != nil || !strings.Contains(string(bases), tools.GoImage+": NO DIGEST") {
		t.Errorf("the base of a local stand-in has no digest, and that is said: %v %s", err, bases)
	}
}

func setting(info *buildinfo.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// The plugin catalog takes semver tags with a leading v only.
func TestVersionThatTheCatalogRefuses(t *testing.T) {
	for _, version := range []string{"0.2.0", "v1", "v1.2", "v01.2.3", "latest"} {
		if out, err := make(t, "-version", version, "-out", filepath.Join(t.TempDir(), "x")); err == nil || !strings.Contains(out, "semver") {
			t.Errorf("%s: %v\n%s", version, err, out)
		}
	}
}
