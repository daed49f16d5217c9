package hub

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// faults kills the parts one after the other: nothing is left behind, and the
// next use works without help.
func (s *servers) faults(t *testing.T) {
	echo := func(name string) func() bool {
		return func() bool {
			session, err := rig.TryConnect(t.Context(), s.url+"/servers/"+name, s.token, rig.Streamable)
			if err != nil {
				return false
			}
			defer session.Close()
			result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: rig.Args{"message": "again"}})
			return err == nil && rig.Text(result) == "Echo: again"
		}
	}
	s.used(t, echo)
	if ids := s.containers(); len(ids) == 0 {
		t.Fatal("no container runs")
	}
	for _, id := range s.containers() {
		s.docker.Try("kill", id)
	}
	rig.Until(t, "a use after the container was killed", echo("docker-everything"))

	// A container whose server ignores the end of its input outlives a killed
	// proxy, until the next one clears up.
	_ = s.proxy.Cmd.Process.Kill()
	<-s.proxy.Done
	left := s.containers()
	if echo("docker-everything")() {
		t.Error("docker servers work without the proxy")
	}
	rig.Until(t, "the others work without the proxy", echo("stdio-everything"))
	s.startProxy(strings.TrimPrefix(s.env[len(s.env)-1], "MCP_PROXY_SOCKET="))
	rig.Until(t, "no container of the killed proxy", func() bool {
		return !slices.ContainsFunc(s.containers(), func(id string) bool { return slices.Contains(left, id) })
	})
	rig.Until(t, "a use after the proxy came back", echo("docker-everything"))

	s.used(t, echo)
	s.Kill()
	<-s.Done
	rig.Until(t, "no container after the hub was killed", func() bool { return len(s.containers()) == 0 })
	rig.Until(t, "no child after the hub was killed", func() bool { return children(s.state()) == "" })
	s.start()
	s.used(t, echo)
}

// used makes sure that a child and a container run.
func (s *servers) used(t *testing.T, echo func(string) func() bool) {
	t.Helper()
	for _, name := range []string{"stdio-everything", "docker-everything"} {
		rig.Until(t, "a use of "+name, echo(name))
	}
}

// children are the processes whose command line names a directory.
func children(dir string) string {
	out, _ := exec.Command("pgrep", "-f", "node .*"+dir).Output()
	return strings.TrimSpace(string(out))
}
