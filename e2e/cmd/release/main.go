// Command release makes what a release consists of, in dist/VERSION: static binaries
// for two architectures (built twice, the digests must agree), images as OCI archives
// where a Docker engine answers, the systemd units, an SBOM for each binary, the result of govulncheck
// where its database can be reached, checksums, and the notes from CHANGELOG.md.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// A release is what every step needs to know.
type release struct {
	root, dir string // the checkout, dist/VERSION
	version   string // v0.2.0
	arches    []string
	images    string // all, none, or the folder of one
}

func main() {
	version := flag.String("version", "", "semver with a leading v, such as v0.2.0: the plugin catalog takes tags of this form only")
	images := flag.String("images", "all", "all (where a Docker engine answers), none, or the folder of one image")
	out := flag.String("out", "", "the folder to make (default dist/VERSION in the checkout)")
	flag.Parse()
	if err := run(*version, *out, *images); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// semver is what the plugin catalog accepts as a tag (semver.org, section 9 included).
var semver = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func run(version, out, images string) error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	if version == "" {
		if version, err = versionInCode(root); err != nil {
			return err
		}
	}
	if !semver.MatchString(version) {
		return fmt.Errorf("%q is no version: give semver with a leading v, such as v0.2.0", version)
	}
	if out == "" {
		out = filepath.Join(root, "dist", version)
	}
	r := release{root: root, dir: out, version: version, arches: []string{"amd64", "arm64"}, images: images}
	if err := os.RemoveAll(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"notes", r.notes}, {"binaries", r.binaries}, {"sbom", r.sboms},
		{"vulnerabilities", r.vulnerabilities}, {"images", r.ociArchives}, {"units", r.units}, {"checksums", r.checksums},
	} {
		fmt.Println("release:", step.name)
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	fmt.Println("release: done,", r.dir)
	return nil
}
