package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// binary is one program and the module and folder that it is built from.
type binary struct{ name, module, folder string }

func (r release) programs() (all []binary) {
	for _, b := range []binary{
		{"sandboxd", ".", "sandboxd"}, {"sallyport", ".", "owner"}, {"sallyport-run", ".", "owner/run"},
		{"sallyport-hub", ".", "hub"}, {"sallyport-dockerproxy", ".", "dockerproxy"},
		{"sallyport-egress", ".", "egress"}, {"sallyport-login", "login", "."},
	} {
		if _, err := os.Stat(filepath.Join(r.root, b.module, b.folder)); err == nil {
			all = append(all, b)
		}
	}
	return all
}

// versionInCode is what the binaries print.
func versionInCode(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, "internal/process/version.go"))
	if err != nil {
		return "", err
	}
	m := regexp.MustCompile(`const Version = "([^"]+)"`).FindSubmatch(source)
	if m == nil {
		return "", errors.New("internal/process/version.go has no Version")
	}
	return "v" + string(m[1]), nil
}

// binaries builds each program twice, the second time in another copy of the
// checkout: neither time nor place may be in it.
func (r release) binaries() error {
	if err := r.build(r.root, r.dir); err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "sallyport-again-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	copied, again := filepath.Join(home, "a", "longer", "way"), filepath.Join(home, "again")
	if err := errors.Join(os.MkdirAll(filepath.Dir(copied), 0o755), os.MkdirAll(again, 0o755)); err != nil {
		return err
	}
	if err := tools.CopyCheckout(copied); err != nil {
		return err
	}
	if err := r.build(copied, again); err != nil {
		return err
	}
	for _, name := range files(again) {
		first, err1 := digest(filepath.Join(r.dir, name))
		second, err2 := digest(filepath.Join(again, name))
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		if first != second {
			return fmt.Errorf("%s: two builds differ, %s and %s", name, first, second)
		}
	}
	return nil
}

func (r release) build(root, out string) error {
	for _, b := range r.programs() {
		for _, arch := range r.arches {
			args := []string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid="}
			if b.module == "." {
				args = append(args, "-mod=vendor")
			}
			cmd := exec.Command("go", append(args, "-o", filepath.Join(out, b.name+"-linux-"+arch), "./"+b.folder)...)
			cmd.Dir = filepath.Join(root, b.module)
			cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOWORK=off", "GOFLAGS=")
			if text, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s for %s: %w\n%s", b.name, arch, err, text)
			}
		}
	}
	return nil
}

// checksums writes what sha256sum --check reads.
func (r release) checksums() error {
	var b bytes.Buffer
	for _, name := range files(r.dir) {
		sum, err := digest(filepath.Join(r.dir, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return os.WriteFile(filepath.Join(r.dir, "SHA256SUMS"), b.Bytes(), 0o644)
}

func files(dir string) (names []string) {
	entries, _ := os.ReadDir(dir) // made by this program
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

func digest(file string) (string, error) {
	data, err := os.ReadFile(file)
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), err
}

// notes is the section of CHANGELOG.md: of the version, or of what is not yet
// released, whose upgrade notes stand under Breaking.
func (r release) notes() error {
	log, err := os.ReadFile(filepath.Join(r.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	for _, title := range []string{strings.TrimPrefix(r.version, "v"), "Unreleased"} {
		_, text, found := strings.Cut(string(log), "\n## ["+title+"]")
		if !found {
			continue
		}
		text, _, _ = strings.Cut(text, "\n## [")
		_, text, _ = strings.Cut(text, "\n")
		return os.WriteFile(filepath.Join(r.dir, "NOTES.md"), []byte("# "+r.version+"\n"+text), 0o644)
	}
	return fmt.Errorf("CHANGELOG.md has no section for %s and none called Unreleased", r.version)
}
