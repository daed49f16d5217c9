package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

// records checks the audits of the installation in the working directory.
func (w *walk) records() {
	files, _ := filepath.Glob(".sallyport/audit/*/audit.jsonl")
	for _, file := range files {
		folder, err := os.Stat(filepath.Dir(file))
		if err == nil && folder.Mode().Perm()&0o077 != 0 {
			w.found("audit", "audit-readable", "%s has mode %04o", filepath.Dir(file), folder.Mode().Perm())
		}
		switch r, err := audit.Verify(file, audit.VerifyOptions{Anchors: os.Getenv("MCP_ANCHOR_DIR")}); {
		case errors.Is(err, os.ErrPermission):
			w.unseen("audit", file+" belongs to another account")
		case err != nil:
			w.found("audit", "audit-broken", "%v", err)
		case r.Finding != nil:
			w.found("audit", "audit-broken", "%s", r.Finding)
		default:
			w.ok("audit", "%s: %s, whole, signed up to %d", file, count(r.Last-r.First+1), r.Signed)
		}
	}
}

// count is a number of records as text: one is "1 record".
func count(n uint64) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprint(n, " records")
}

// ownerSockets tries the owner's sockets with another key and with the right
// one, and whether anybody can answer calls that ask.
func (w *walk) ownerSockets() {
	sockets, _ := filepath.Glob(".sallyport/run/*/owner.sock")
	answered := false
	for _, path := range sockets {
		ctx, cancel := context.WithTimeout(w.ctx, 10*time.Second)
		err := keysocket.RefusesStrangers(ctx, path)
		cancel()
		switch {
		case errors.Is(err, os.ErrPermission):
			w.unseen("owner", path+" belongs to another account")
			answered = true
		case err != nil && strings.Contains(err.Error(), "without its key"):
			w.found("owner", "owner-socket-open", "%v", err)
		case err == nil:
			answered = w.ownerAnswers(path) || answered
		}
	}
	if asks := asking(); asks != "" && !answered {
		w.found("owner", "ask-unanswered", "%s asks, and no owner's socket below .sallyport/run answers", asks)
	}
}

// ownerAnswers uses a socket with the installation's key.
func (w *walk) ownerAnswers(path string) bool {
	c, err := ownersock.Dial(w.ctx, path, ".sallyport/owner/key")
	if err != nil {
		w.found("owner", "owner-key", "%v", err)
		return false
	}
	defer c.Close()
	var s ownersock.Status
	if err := c.Do(ownersock.Request{Op: ownersock.OpStatus}, &s); err != nil {
		w.found("owner", "owner-key", "%v", err)
		return false
	}
	if !s.Audit {
		w.found("audit", "audit-off", "%s records nothing", s.Process)
	}
	w.ok("owner", "%s: refuses another key, answers with yours; %d calls wait, %d run", path, s.Waiting, s.Running)
	return true
}

// asking is the first grant of traefik-dynamic.yml, outside comments, that asks.
func asking() string {
	raw, err := os.ReadFile("traefik-dynamic.yml")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		line, _, _ = strings.Cut(line, "#")
		if m := regexp.MustCompile(`\bask:[^\s"',\]]+`).FindString(line); m != "" {
			return m
		}
	}
	return ""
}
