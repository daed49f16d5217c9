package clients_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

// held is how long the owner lets a call wait before approving it: under the 60
// seconds after which these clients give up, and past the 50 after which a call
// is answered as pending only with progress.
const (
	held     = 45 * time.Second
	heldLong = 3 * time.Minute // the soak
)

// Real clients through Traefik and the plugin: a call that is held and
// approved, denied, answered as pending and repeated, and kept alive by progress.
// There are two chains, since at most 16 calls of one principal wait. The client
// of version 2 speaks 2026-07-28 over "mcp".
func TestHeldCalls(t *testing.T) {
	t.Parallel()
	modules := rig.NPM(t, "clients")
	script := beside(t, modules, "held.mjs")
	const v2 = "@modelcontextprotocol/client"
	kinds := cases
	if os.Getenv("SALLYPORT_SOAK") != "" {
		kinds = append(slices.Clone(kinds), "again")
	}
	chains := []*rig.Chain{heldChain(t), heldChain(t)}
	var all sync.WaitGroup // not t.Parallel, which has as many at once as there are cores
	for _, v := range []struct {
		chain    int
		pkg, how string
	}{{0, "sdk-1-17", "sse"}, {0, "sdk-1-17", "mcp"}, {1, "sdk-1-32", "mcp"}, {1, v2, "sse"}, {1, v2, "mcp"}} {
		c := chains[v.chain]
		all.Go(func() { typeScript(t, script, c.Token, v.pkg, v.how, c.Base, "", kinds) })
	}
	session := rig.Connect(t, chains[0].Base, chains[0].Token, rig.Streamable)
	for _, name := range []string{"approve", "deny"} {
		all.Go(func() {
			r := rig.TryCall(t, session, "run_command", rig.Args{"command": "echo " + name + "-go"})
			visit{Text: rig.Text(r), IsError: r.IsError}.check(t, name, name+"-go")
		})
	}
	all.Wait()
}

// cases are the calls of each client. In the soak one more, "again", is repeated until
// it is approved after heldLong.
var cases = []string{"approve", "deny", "pending", "progress", "progress-deny"}

// typeScript makes a held call of each case with a TypeScript SDK; at ends what
// their commands say.
func typeScript(t *testing.T, script, token, pkg, how, base, at string, cases []string) {
	t.Helper()
	out := nodeFor(t, patience+heldLong, token, append([]string{script, pkg, how, base}, cases...)...)
	var got map[string]visit
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got) != len(cases) {
		t.Errorf("%s %s %s: %v in %q", pkg, how, at, err, out)
	}
	for name, r := range got {
		t.Logf("%s %s%s %s: %.1f s, %d progress", pkg, how, at, name, r.Seconds, r.Progress)
		r.check(t, name, name+"-"+strings.Map(letters, pkg)+"-"+how+at)
	}
}

// letters drops what the script drops of a package's name.
func letters(r rune) rune {
	if strings.ContainsRune("@/-", r) {
		return -1
	}
	return r
}

// visit is what became of one call.
type visit struct {
	First, Text string
	IsError     bool
	Progress    int
	Seconds     float64
}

func (v visit) check(t *testing.T, name, echo string) {
	t.Helper()
	ran := !v.IsError && strings.Contains(v.Text, echo)
	switch {
	case strings.HasSuffix(name, "deny") && (!v.IsError || !strings.Contains(v.Text, "not today")):
	case (name == "pending" || name == "again") && (!ran || !strings.Contains(v.First, "exactly the same call")):
	case name == "progress" && !ran, strings.HasPrefix(name, "progress") && v.Progress < 3:
	case name == "approve" && !ran:
	default:
		return
	}
	t.Errorf("%s: %+v", name, v)
}

// heldChain is a chain whose token asks for run_command, with an owner who
// decides by the command's name.
func heldChain(t *testing.T) *rig.Chain {
	t.Helper()
	key, socket, env := owners(t)
	c := rig.StartChain(t, rig.ChainOptions{
		Edit: func(yaml string) string {
			return strings.Replace(yaml, `tools: ["run_command", "read_file", "write_file"]`, `tools: ["ask:run_command", "read_file", "write_file"]`, 1)
		},
		Sandboxd: rig.SandboxdOptions{Env: env},
	})
	decides(t, socket, key)
	return c
}

// owners makes the owner's folder: its key, and the settings of a server.
func owners(t *testing.T) (key, socket string, env []string) {
	t.Helper()
	dir := rig.PublicDir(t)
	for _, sub := range []string{"audit", "owner"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key, socket = filepath.Join(dir, "owner", "key"), filepath.Join(dir, "owner", "owner.sock")
	if err := os.WriteFile(key, []byte(strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return key, socket, []string{"MCP_AUDIT_FILE=" + dir + "/audit/audit.jsonl", "MCP_OWNER_SOCKET=" + socket, "MCP_OWNER_KEY_FILE=" + key}
}

// decides is an owner at a server's socket until the test's end.
func decides(t *testing.T, socket, key string) {
	t.Helper()
	owner, err := ownersock.Dial(t.Context(), socket, key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); decide(ctx, owner) }()
	t.Cleanup(func() { cancel(); <-done; owner.Close() })
}

func decide(ctx context.Context, owner *ownersock.Client) {
	long := heldLong
	if os.Getenv("SALLYPORT_SOAK") == "" {
		long = 20 * time.Second
	}
	for ctx.Err() == nil {
		var list []approval.Waiting
		if owner.Do(ownersock.Request{Op: ownersock.OpPending}, &list) != nil {
			return
		}
		for _, w := range list {
			r := ownersock.Request{Op: ownersock.OpDecide, ID: w.ID, Approve: true}
			waited := time.Since(w.Asked)
			ready := false
			switch {
			case strings.Contains(w.Arguments, "echo approve"):
				ready = waited >= held
			case strings.Contains(w.Arguments, "echo progress-deny"):
				ready, r.Approve, r.Reason = waited >= long, false, "not today"
			case strings.Contains(w.Arguments, "echo progress"), strings.Contains(w.Arguments, "echo again"):
				ready = waited >= long
			case strings.Contains(w.Arguments, "echo pending"):
				ready = waited >= approval.Hold+2*time.Second // the client has repeated its call by then
			default:
				ready, r.Approve, r.Reason = waited >= time.Second, false, "not today"
			}
			if ready {
				_ = owner.Do(r, nil)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
}
