package egress_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// owner is the uid of the workspace, and of egress.
const owner = 54321

// A stand is a chain whose commands reach egress, with three tokens.
type stand struct {
	*rig.Chain
	audit  string
	tokens map[string]string // by name
}

// newStand starts one; lists are what stands under egress: of each token.
func newStand(t *testing.T, lists map[string]string) *stand {
	t.Helper()
	dir := rig.PublicDir(t)
	s := &stand{tokens: map[string]string{}}
	for _, name := range []string{"workspace", "run", "audit"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	_, key := rig.NewToken(t)
	if err := os.WriteFile(key, []byte(strings.Repeat("0123456789abcdef", 4)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(key, filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	if err := ca.WritePEM(filepath.Join(dir, "workspace", "ca.pem")); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chown", "-R", fmt.Sprintf("%d:%[1]d", owner), dir).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v %s", err, out)
	}
	s.audit = filepath.Join(dir, "audit", "audit.jsonl")
	socket := filepath.Join(dir, "run", "egress.sock")
	egress := exec.Command(rig.Binary(t, "sallyport-egress"))
	egress.Env = []string{"EGRESS_SOCKET=" + socket, "EGRESS_KEY_FILE=" + dir + "/key", "EGRESS_ALLOW=x.example,y.example", "EGRESS_AUDIT_FILE=" + s.audit}
	egress.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner, Gid: owner}}
	p := rig.Start(t, egress)
	rig.Until(t, "egress listens", func() bool { return strings.Contains(p.Log.String(), `"listening"`) }, p)
	for name := range lists {
		s.tokens[name], _ = rig.NewToken(t)
	}
	for _, log := range hosts {
		log.Received(true) // what another test left
	}
	s.Chain = rig.StartChain(t, rig.ChainOptions{
		Edit: func(yaml string) string { return s.withTokens(t, yaml, lists) },
		Sandboxd: rig.SandboxdOptions{Workspace: filepath.Join(dir, "workspace"), Env: []string{
			"MCP_COMMAND_NETWORK=allowlist", "MCP_EGRESS_SOCKET=" + socket, "MCP_EGRESS_KEY_FILE=" + dir + "/key"}},
	})
	return s
}

// withTokens puts the stand's tokens beside the one that traefik-dynamic.yml has.
func (s *stand) withTokens(t *testing.T, yaml string, lists map[string]string) string {
	t.Helper()
	const before = "          tokens:\n            # One entry per assistant"
	if !strings.Contains(yaml, before) {
		t.Fatal("traefik-dynamic.yml has no list of tokens where this test looks for it")
	}
	entries := "          tokens:\n"
	for name, list := range lists {
		file := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(file, []byte(s.tokens[name]+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		entries += fmt.Sprintf("            - {name: %s, valueFile: %s, tools: [run_command]%s}\n", name, file, list)
	}
	return strings.Replace(yaml, before, entries+"            # One entry per assistant", 1)
}

// forged is a client's own header, which the edge must not pass on.
type forged struct {
	token string
	next  http.RoundTripper
}

func (f forged) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+f.token)
	for _, name := range []string{"X-Sallyport-Egress", "X_Sallyport_Egress", "x.sallyport.egress"} {
		r.Header[name] = []string{"*"}
	}
	r.Header.Set("X-Sallyport-Principal", "token:all")
	return f.next.RoundTrip(r)
}

// reached runs a command by that token that asks both hosts, and returns which of
// them answered, and what its caller was told of the rest.
func (s *stand) reached(t *testing.T, name string) (answered []string, notices string) {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "sallyport-e2e", Version: "1"}, nil)
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{Endpoint: s.Base + "/mcp",
		HTTPClient: &http.Client{Transport: forged{s.tokens[name], rig.HTTPClient("").Transport}}}, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer session.Close()
	const ask = "for h in x y; do curl -sS --max-time 45 --cacert ca.pem https://$h.example/ && echo; done; true"
	result := rig.Call(t, session, "run_command", rig.Args{"command": ask, "timeout_seconds": 100})
	for host := range addresses {
		if strings.Contains(fmt.Sprint(result["stdout"]), "this is "+host+"\n") {
			answered = append(answered, host)
		}
	}
	slices.Sort(answered)
	return answered, fmt.Sprint(result["notices"])
}

// connections returns what egress recorded since the start: principal, target and
// verdict of each connection that has ended or was refused.
func (s *stand) connections(t *testing.T) (all []string) {
	t.Helper()
	raw, err := os.ReadFile(s.audit)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(raw)) {
		var r struct {
			Kind, Principal, Verdict string
			Details                  map[string]any
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.Kind == "end" || r.Kind == "refused" {
			all = append(all, fmt.Sprint(r.Principal, " ", r.Details["target"], " ", r.Verdict))
		}
	}
	slices.Sort(all)
	return all
}

// Each token's commands reach the hosts of its own list, through everything that
// lies between, and egress records who it was. No header of a client's changes it.
// The twin: with every host on every list the same commands reach both.
func TestTokensReachTheirOwnHosts(t *testing.T) {
	rig.NeedRoot(t)
	rig.NeedCommand(t, "curl")
	s := newStand(t, map[string]string{"a": ", egress: [x.example]", "b": ", egress: [y.example]", "none": ""})
	for name, want := range map[string]string{"a": "x.example", "b": "y.example", "none": ""} {
		answered, notices := s.reached(t, name)
		if got := strings.Join(answered, " "); got != want {
			t.Errorf("%s reached %q, want %q: %s", name, got, want, notices)
		}
		for host := range addresses {
			missing := fmt.Sprintf("%q to egress: of the token %s", host, name)
			if strings.Contains(notices, missing) == (host == want) {
				t.Errorf("%s is told: %s", name, notices)
			}
		}
	}
	s.recorded(t, []string{
		"token:a x.example:443 ok", "token:a y.example:443 not_granted", "token:b x.example:443 not_granted",
		"token:b y.example:443 ok", "token:none x.example:443 not_granted", "token:none y.example:443 not_granted",
	})
	for host, log := range hosts {
		if n := len(log.Received(true)); n != 1 {
			t.Errorf("%s saw %d connections", host, n)
		}
	}
}

func TestTwinEveryListHasBothHosts(t *testing.T) {
	rig.NeedRoot(t)
	rig.NeedCommand(t, "curl")
	both := ", egress: [x.example, y.example]"
	s := newStand(t, map[string]string{"a": both, "b": both, "none": `, egress: ["*"]`})
	for name := range s.tokens {
		if answered, notices := s.reached(t, name); len(answered) != 2 {
			t.Errorf("%s reached %q: %s", name, answered, notices)
		}
	}
	for host, log := range hosts {
		if n := len(log.Received(true)); n != len(s.tokens) {
			t.Errorf("%s saw %d connections", host, n)
		}
	}
	want := []string{}
	for name := range maps.Keys(s.tokens) {
		for host := range addresses {
			want = append(want, "token:"+name+" "+host+":443 ok")
		}
	}
	slices.Sort(want)
	s.recorded(t, want)
}

// recorded waits until egress has recorded as many connections, and compares.
func (s *stand) recorded(t *testing.T, want []string) {
	t.Helper()
	var got []string
	rig.Until(t, "egress's records", func() bool { got = s.connections(t); return len(got) >= len(want) })
	if !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
