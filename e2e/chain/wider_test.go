package chain_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// everyTool grants the client's token all of the sandbox's tools.
func everyTool(yaml string) string {
	return strings.ReplaceAll(unhurried(yaml), `tools: ["run_command", "read_file", "write_file"]`, `tools: ["*"]`)
}

// The wider tool set through the whole chain: what one session starts, the next
// one finds, whatever transport it comes by.
func TestWiderToolsThroughTraefik(t *testing.T) {
	c := rig.StartChain(t, rig.ChainOptions{Edit: everyTool, Sandboxd: rig.SandboxdOptions{Env: []string{"MCP_TOOLS=all"}}})
	session := rig.Connect(t, c.Base, c.Token, rig.SSE)
	started := rig.Call(t, session, "run_command", args{
		"command": "echo begun; while ! test -e go-on; do sleep 0.05; done; echo done", "background_after_seconds": 1})
	handle, _ := started["handle"].(string)
	if handle == "" || started["running"] != true {
		t.Fatalf("no answer before the end: %v", started)
	}
	session.Close()

	session = rig.Connect(t, c.Base, c.Token, rig.Streamable)
	rig.Call(t, session, "write_file", args{"path": "src/a.txt", "content": "one\r\ntwo\r\n"})
	rig.Call(t, session, "write_file", args{"path": ".gitignore", "content": "*.log\n"})
	rig.Call(t, session, "write_file", args{"path": "go-on", "content": ""})
	out, cursor := "", ""
	for {
		page := rig.Call(t, session, "command_output", args{"handle": handle, "cursor": cursor, "wait_seconds": 20})
		out += page["stdout"].(string)
		if cursor = page["cursor"].(string); page["running"] == false && page["more"] == false {
			break
		}
	}
	if out != "begun\ndone\n" {
		t.Errorf("the output in the next session: %q", out)
	}

	edited := rig.Call(t, session, "edit_file", args{"path": "src/a.txt", "old_text": "two", "new_text": "2\n3"})
	data, err := os.ReadFile(filepath.Join(c.Sandbox.Workspace, "src/a.txt"))
	if err != nil || string(data) != "one\r\n2\r\n3\r\n" || !strings.Contains(edited["diff"].(string), "-two\r\n+2\r\n") {
		t.Errorf("edited: %q, %v, %v", data, err, edited)
	}
	found := rig.Call(t, session, "search_files", args{"pattern": "^[23]$"})
	if n := len(found["matches"].([]any)); n != 2 {
		t.Errorf("%d matches: %v", n, found)
	}
	listed := rig.Call(t, session, "list_files", args{"glob": "*.txt"})
	if n := len(listed["entries"].([]any)); n != 1 {
		t.Errorf("%d entries: %v", n, listed)
	}
	refused(t, session, "a protected path", "edit_file", args{"path": ".git/config", "old_text": "a", "new_text": "b"})

	long := rig.Call(t, session, "start_command", args{"command": "sleep 1000"})
	stopped := rig.Call(t, session, "stop_command", args{"handle": long["handle"]})
	if stopped["running"] != false || stopped["signal"] != "SIGTERM" {
		t.Errorf("stopped: %v", stopped)
	}
	refused(t, session, "a handle of nobody", "command_output", args{"handle": "nobody's"})
}
