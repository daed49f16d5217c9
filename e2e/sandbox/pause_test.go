package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

// Once pause has answered no call begins any more: the next one is refused. How
// long that takes, by the client's clock, is logged, and asserted by the soak.
func TestPauseRefusesAtOnce(t *testing.T) {
	rig.NeedRoot(t)
	rounds, soak := 20, os.Getenv("SALLYPORT_SOAK") != ""
	if soak {
		rounds = 500
	}
	id, _ := strconv.Atoi(uid)
	dir, workspace := owned(t, id), rig.PublicDir(t)
	if err := os.WriteFile(filepath.Join(workspace, "f"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{workspace, filepath.Join(workspace, "f")} {
		if err := os.Chown(path, id, id); err != nil {
			t.Fatal(err)
		}
	}
	s := startOwned(t, dir, workspace)
	session, err := s.connect("")
	if err != nil {
		t.Fatal(err)
	}
	read := func() (string, bool) {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "read_file", Arguments: map[string]any{"path": "f"}})
		if err != nil {
			t.Fatal(err)
		}
		return rig.Text(r), r.IsError
	}
	owner := s.owner()
	tell := func(op string) {
		t.Helper()
		if err := owner.Do(ownersock.Request{Op: op}, nil); err != nil {
			t.Fatal(err)
		}
	}
	var took []time.Duration
	for round := range rounds {
		if text, failed := read(); failed {
			t.Fatalf("twin, round %d: %s", round, text)
		}
		tell(ownersock.OpPause)
		begin := time.Now()
		text, refused := read()
		took = append(took, time.Since(begin))
		if !refused || !strings.Contains(text, "paused") {
			t.Fatalf("round %d: a call after the pause got %q", round, text)
		}
		tell(ownersock.OpResume)
	}
	slices.Sort(took)
	p99 := took[len(took)*99/100]
	t.Logf("from the pause to a refusal: median %v, p99 %v of %d", took[len(took)/2], p99, rounds)
	if soak && p99 > 100*time.Millisecond {
		t.Errorf("p99 %v, the bound is 100 ms", p99)
	}
}
