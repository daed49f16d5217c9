// Command picture draws docs/images/terminal.svg: the real output of make run and of
// sallyport doctor, in a copy of the checkout. Run it in e2e: go run ./cmd/picture
package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/tools"
)

const (
	columns    = 118
	lineHeight = 17
	width      = 888             // of the picture: 118 characters of 7.25 and the margins
	patience   = 3 * time.Minute // make run builds first
)

// kernel is a version with what a distribution adds to it.
var kernel = regexp.MustCompile(`(Linux \d+\.\d+)\S*`)

func main() {
	if err := draw(); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func draw() error {
	root, err := tools.Root()
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "sallyport-picture-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	dir := filepath.Join(home, "sallyport")
	if err := tools.CopyCheckout(dir); err != nil {
		return err
	}
	_ = os.Chmod(home, 0o755) // the server gives up root and must still reach the copy
	served, checked, err := session(dir)
	if err != nil {
		return err
	}
	lines := append([]string{"$ make run"}, clean(served, home)...)
	lines = append(lines, "", "$ bin/sallyport doctor")
	lines = append(lines, clean(checked, home)...)
	return os.WriteFile(filepath.Join(root, "docs/images/terminal.svg"), svg(lines), 0o644)
}

// session starts the server, waits for its greeting, and runs doctor beside it.
func session(dir string) (served, checked string, err error) {
	var out greeting
	run := exec.Command("make", "run")
	run.Dir, run.Stdout = dir, &out
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := run.Start(); err != nil {
		return "", "", err
	}
	defer func() {
		_ = syscall.Kill(-run.Process.Pid, syscall.SIGTERM)
		_ = run.Wait()
	}()
	for end := time.Now().Add(patience); !strings.Contains(out.String(), "doctor"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			return "", "", fmt.Errorf("make run did not come up: %s", out.String())
		}
	}
	doctor := exec.Command("bin/sallyport", "doctor")
	doctor.Dir = dir
	report, err := doctor.Output()
	return out.String(), string(report), err
}

// clean keeps what a reader needs: no audit lines, no path of this machine.
func clean(text, home string) (lines []string) {
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, "{") {
			continue
		}
		line = kernel.ReplaceAllString(strings.ReplaceAll(line, home, "/home/you"), "$1")
		if r := []rune(line); len(r) > columns {
			line = string(r[:columns-1]) + "…"
		}
		lines = append(lines, line)
	}
	return lines
}

func svg(lines []string) []byte {
	var b bytes.Buffer
	height := len(lines)*lineHeight + 36
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img" aria-label="Output of make run and sallyport doctor">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" rx="8" fill="#16181d"/>`+"\n", width, height)
	b.WriteString(`<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="12" xml:space="preserve">` + "\n")
	for i, line := range lines {
		fmt.Fprintf(&b, `<text x="16" y="%d" fill="%s">`, 30+i*lineHeight, colour(line))
		_ = xml.EscapeText(&b, []byte(line)) // a bytes.Buffer takes everything
		b.WriteString("</text>\n")
	}
	b.WriteString("</g>\n</svg>\n")
	return b.Bytes()
}

func colour(line string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(line), " ")
	switch {
	case strings.HasPrefix(line, "$ "):
		return "#8ab4f8"
	case word == "ok":
		return "#81c995"
	case word == "warn" || word == "fail":
		return "#fdd663"
	}
	return "#e8eaed"
}
