package sandbox

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/audit/reader"
)

// The disk of the sandbox's audit is full: calls are refused with the reason and run
// nothing; with room again they run. Nothing is lost.
func TestSandboxRefusesCallsOnAFullDisk(t *testing.T) {
	rig.NeedRoot(t)
	rig.NeedCommand(t, "unshare")
	dir, workspace := rig.PublicDir(t), rig.PublicDir(t)
	id, _ := strconv.Atoi(uid)
	if err := os.Chown(workspace, id, id); err != nil {
		t.Fatal(err)
	}
	s := rig.StartSandboxd(t, rig.SandboxdOptions{Workspace: workspace, Env: []string{"MCP_AUDIT_FILE=" + dir + "/chain/audit.jsonl"},
		Wrap: []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=2m,mode=0755 tmpfs "$1" && mkdir -m 0700 "$1/chain" && chown ` +
			uid + ":" + uid + ` "$1/chain" && shift && exec "$@"`, "sh", dir}})
	session, err := (&ownedSandbox{s, t, dir}).connect("")
	if err != nil {
		t.Fatal(err)
	}
	run := func() (string, bool) {
		r, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "run_command", Arguments: map[string]any{"command": "echo x >> ran"}})
		if err != nil {
			return err.Error(), false
		}
		return rig.Text(r), !r.IsError
	}
	ran := func() int {
		raw, _ := os.ReadFile(filepath.Join(workspace, "ran"))
		return strings.Count(string(raw), "x")
	}
	if text, ok := run(); !ok || ran() != 1 {
		t.Fatalf("twin, with room: %s", text)
	}
	inside := "/proc/" + strconv.Itoa(s.Cmd.Process.Pid) + "/root" + dir
	rest, err := os.Create(inside + "/rest")
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if _, err := io.Copy(rest, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	text, ok := "", true
	for n := 0; ok && n < 20_000; n++ { // what was reserved before may still be used
		text, ok = run()
	}
	if !strings.Contains(text, audit.ErrUnwritable.Error()) {
		t.Errorf("a client is told %q", text)
	}
	before := ran()
	if _, ok := run(); ok || ran() != before {
		t.Error("a call without a record ran")
	}
	if err := os.Remove(rest.Name()); err != nil {
		t.Fatal(err)
	}
	rest.Close()
	rig.Until(t, "a call with room again", func() bool { _, ok := run(); return ok }, s.Process)
	begun := 0
	_ = audit.Lines(inside+"/chain/audit.jsonl", func(l audit.Line) bool {
		if r, ok := l.Record(); ok && r.Kind == audit.KindBegin {
			begun++
		}
		return true
	})
	if _, _, err := reader.Read(inside + "/chain/audit.jsonl"); err != nil || begun != ran() {
		t.Errorf("%d calls ran, %d are on the record: %v", ran(), begun, err)
	}
	out, err := exec.Command(rig.Binary(t, "sallyport"), "audit", "verify", inside+"/chain/audit.jsonl").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A second sandbox, or a hub, with the same audit does not start, and says why.
func TestSecondWriterDoesNotStart(t *testing.T) {
	rig.NeedRoot(t)
	id, _ := strconv.Atoi(uid)
	dir, workspace := owned(t, id), rig.PublicDir(t)
	if err := os.Chown(workspace, id, id); err != nil {
		t.Fatal(err)
	}
	s := startOwned(t, dir, workspace)
	for _, binary := range []string{"sandboxd", "sallyport-hub"} {
		config := filepath.Join(rig.PublicDir(t), "mcp.json")
		if err := os.WriteFile(config, []byte(`{"mcpServers": {}}`), 0o644); err != nil {
			t.Fatal(err)
		}
		state := filepath.Join(rig.PublicDir(t), "state")
		if err := errors.Join(os.Mkdir(state, 0o700), os.Chown(state, 64321, 64321)); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(rig.Binary(t, binary))
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MCP_ADDR=" + rig.FreeAddr(t), "MCP_WORKSPACE=" + workspace, "MCP_AUTH_TOKEN_FILE=" + s.TokenFile,
			"MCP_AUDIT_FILE=" + dir + "/audit/audit.jsonl", "MCP_SERVERS_FILE=" + config, "MCP_STATE_DIR=" + state}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "another process writes this chain") {
			t.Errorf("%s: %v\n%s", binary, err, out)
		}
	}
	verified(t, dir+"/audit/audit.jsonl")
}
