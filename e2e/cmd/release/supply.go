package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// sboms writes a CycloneDX document beside each binary, from what is linked in it.
func (r release) sboms() error {
	for _, b := range r.programs() {
		file := filepath.Join(r.dir, b.name+"-linux-"+r.arches[0])
		if err := r.tool("cyclonedx-gomod", "bin", "-json", "-noserial", "-version", r.version, "-output", file[:len(file)-len("-linux-")-len(r.arches[0])]+".cdx.json", file); err != nil {
			return err
		}
	}
	return nil
}

func (r release) tool(args ...string) error {
	cmd := exec.Command("go", append([]string{"tool"}, args...)...)
	cmd.Dir = filepath.Join(r.root, "e2e")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

// vulnerabilities runs govulncheck in every module. A database that cannot be
// reached is said in the result; a finding stops the release.
func (r release) vulnerabilities() error {
	var report bytes.Buffer
	for _, module := range tools.Modules(r.root) {
		find := exec.Command("go", "tool", "-n", "govulncheck")
		find.Dir = filepath.Join(r.root, "e2e")
		bin, err := find.Output()
		if err != nil {
			return fmt.Errorf("govulncheck: %w", err)
		}
		cmd := exec.Command(strings.TrimSpace(string(bin)), "./...")
		cmd.Dir = module
		text, err := cmd.CombinedOutput()
		name, _ := filepath.Rel(r.root, module)
		switch {
		case err == nil:
			fmt.Fprintf(&report, "module %s: no known vulnerability is called\n", name)
		case bytes.Contains(text, []byte("fetching vulnerabilities")) || bytes.Contains(text, []byte("vuln.go.dev")):
			fmt.Fprintf(&report, "module %s: NOT CHECKED, the database could not be reached\n", name)
		default:
			return fmt.Errorf("module %s: %w\n%s", name, err, text)
		}
	}
	fmt.Print(report.String())
	return os.WriteFile(filepath.Join(r.dir, "VULNERABILITIES.txt"), report.Bytes(), 0o644)
}
