package docker_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// dockerRunEquals runs the docker commands of docs/docker.md in a checkout whose
// stack is up, and wants the container that Compose made. The stack is down then.
func dockerRunEquals(t *testing.T, d *rig.Docker, c *rig.Checkout) {
	t.Helper()
	compose := inspect(t, d, "sandboxd")
	network := d.Run("network", "inspect", "-f", "{{json .Options}}", d.Name+"_sandbox")
	c.Make("down") // the port is free again

	script := "set -eu\n"
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(c.Read("docs/docker.md"), -1) {
		script += block[1]
	}
	script = strings.NewReplacer(
		"make env WORKSPACE=~/Development", "make env",
		"sallyport-sandbox", d.Name+"-run",
		"docker build ", "docker build --build-arg GO_IMAGE="+tools.GoImage+" ",
	).Replace(script)
	t.Cleanup(func() {
		d.Try("rm", "-f", d.Name+"-rund")
		d.Try("network", "rm", d.Name+"-run")
		d.Try("rmi", d.Name+"-rund")
	})
	cmd := c.Command("sh", "-c", script)
	cmd.Env = append(cmd.Env, "DOCKER_BUILDKIT=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rig.Until(t, "the container's health", func() bool { return rig.Status("http://127.0.0.1:18080/healthz") == 200 })

	run := inspectID(t, d, d.Name+"-rund")
	if got := d.Run("network", "inspect", "-f", "{{json .Options}}", d.Name+"-run"); got != network {
		t.Errorf("the networks differ: %s and %s", got, network)
	}
	if run.Config.User != compose.Config.User || !slices.Equal(targets(run), targets(compose)) {
		t.Errorf("user or mounts differ: %s %q and %s %q", run.Config.User, targets(run), compose.Config.User, targets(compose))
	}
	// Compose passes the defaults that a user may change in .env; everything else is equal.
	optional := []string{"MCP_TOOLS=", "MCP_PROTECTED_PATHS=", "MCP_COMMAND_NETWORK=", "MCP_JAIL=", "MCP_AUDIT_ARGUMENTS=", "MCP_SYSV_IPC=", "MCP_MAX_PROCESSES="}
	if a, b := environment(run, optional), environment(compose, optional); !slices.Equal(a, b) {
		t.Errorf("environments differ:\n%q\n%q", a, b)
	}
	run.HostConfig.NetworkMode, compose.HostConfig.NetworkMode = "", "" // the network's name
	if a, b := asJSON(t, run.HostConfig), asJSON(t, compose.HostConfig); a != b {
		t.Errorf("limits differ:\n%s\n%s", a, b)
	}
}

func environment(c container, without []string) []string {
	env := slices.DeleteFunc(slices.Clone(c.Config.Env), func(e string) bool {
		return slices.ContainsFunc(without, func(p string) bool { return strings.HasPrefix(e, p) })
	})
	slices.Sort(env)
	return env
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
