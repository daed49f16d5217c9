package sallyport

import (
	"go/ast"
	"io"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/owner/token"
)

// proven says of each command in README and docs, by its beginning, which test
// runs it, or why none can.
var proven = []struct{ command, by string }{
	{"git clone", "outside: the public repository"},
	{"make run", "e2e/doctor TestFirstMinutes"},
	{"make up", "e2e/docker TestMakeUp"},
	{"make env", "e2e/docker TestMakeUp"},
	{"make install", "e2e/doctor TestInstall"},
	{"make release", "e2e/release TestRelease"},
	{"make e2e", "this is the tests"},
	{"make bench", "e2e/figures TestMakeBench"},
	{"make soak", "e2e/soak TestMixed"},
	{"cd e2e", "this is the tests"},
	{"bin/sallyport doctor -traefik-api", "e2e/doctor TestNoFalseAlarm"},
	{"bin/sallyport doctor https://", "e2e/doctor TestComposeStack"},
	{"bin/sallyport doctor -as", "owner/doctor/replay TestCommand"},
	{"bin/sallyport doctor", "e2e/doctor TestFirstMinutes"},
	{"bin/sallyport attack", "e2e/sandbox TestAttackCommand"},
	{"bin/sallyport plan", "owner/plan TestGolden"},
	{"sallyport token", ". TestTokenCommandsInPages"},
	{"bin/sallyport token", ". TestTokenCommandsInPages"},
	{"docker compose up -d --build sandboxd", "e2e/docker TestMakeUp"},
	{"docker compose --profile tailscale", "outside: a tailnet; its configuration is read by e2e/doctor TestServeConfig"},
	{". ./.env", "e2e/docker TestMakeUp"},
	{"docker build", "e2e/docker TestMakeUp"},
	{"docker network create", "e2e/docker TestMakeUp"},
	{"docker run", "e2e/docker TestMakeUp"},
	{"make env bin/sallyport bin/sallyport-hub", "e2e/doctor TestHubByHand"},
	{"export MCP_", "e2e/doctor TestHubByHand"},
	{"bin/sallyport-hub", "e2e/doctor TestHubByHand"},
	{"docker compose exec hub sallyport accept", "hub/service TestChangedDefinitionIsWithheld"},
	{"mkdir -m 1777 .sallyport/sockets/", "e2e/hub TestRealServers"},
	{"npm install --prefix programs", "outside: a package registry; the folder is as e2e/hub TestTenAgentsOnThreeServers makes it"},
	{"bin/sallyport import", "owner/imports TestClientsFiles"},
	{"sallyport accept", "owner/accept TestThroughTheSocket"},
	{"CGO_ENABLED=0 go build -o sallyport-dockerproxy", "e2e/proxy TestSandbox"},
	{"CONFIG_PATH=", "e2e/proxy TestSandbox"},
	{"install -d -m 0755 /etc/sallyport", "outside: the owner's machine"},
	{"install -m 640", "outside: the owner's secrets"},
	{"tailscale", "outside: a tailnet"},
	{"(umask 077; mkdir -p .sallyport/tailscale", "outside: a key of the tailnet"},
	{"systemctl", "outside: a machine that systemd has started; the unit is checked by e2e/doctor TestInstall"},
	{"useradd --system sallyport-login", "outside: the owner's machine"},
	{"sed 's|@LOGIN@|", "e2e/login TestTicksDecide fills deploy/login.json in the same way"},
	{"journalctl -u sallyport-login", "outside: a machine that systemd has started; the code is in login TestFirstStart"},
	{"sudo -u sallyport-login LOGIN_STATE_DIR=", "login TestRevocation"},
	{"curl https://api.openai.com", "outside: an account"},
	{"claude mcp add-json", "owner/run TestClientLine"},
	{"claude mcp add", "outside: Claude Code"},
	{"SALLYPORT_TOKEN=", "outside: Cursor, Gemini CLI"},
	{"npx poke", "outside: an account"},
}

// A command that nobody has tried is wrong sooner or later.
func TestCommandsInPagesAreTried(t *testing.T) {
	tests := map[string]bool{}
	for _, f := range sources(t) {
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && f.test {
				tests[f.dir+" "+fn.Name.Name] = true
			}
		}
	}
	named := regexp.MustCompile(`[a-z0-9./]+ Test\w+`)
	for _, p := range proven {
		for _, name := range named.FindAllString(p.by, -1) {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", p.command, name)
			}
		}
	}
	seen := 0
	for _, page := range tracked(t, ".md") {
		for _, line := range commandsOf(read(t, page)) {
			seen++
			if !isProven(line) {
				t.Errorf("%s: no test runs %q; add one, or say why none can, in commands_test.go", page, line)
			}
		}
	}
	if seen < 25 {
		t.Errorf("only %d commands found: this test reads the pages wrongly", seen)
	}
}

// The commands of the pages make a token and its hash, as they stand there.
func TestTokenCommandsInPages(t *testing.T) {
	var lines []string
	for _, page := range tracked(t, ".md") {
		lines = append(lines, commandsOf(read(t, page))...)
	}
	t.Chdir(t.TempDir())
	for _, line := range lines {
		command := strings.Fields(strings.TrimPrefix(line, "bin/"))
		if !strings.HasPrefix(strings.Join(command, " "), "sallyport token ") {
			continue
		}
		file := &command[len(command)-1]
		*file = path.Base(*file)
		var said strings.Builder
		if code := token.Main(t.Context(), command[2:], io.Discard, &said); code != 0 {
			t.Errorf("%s: exit code %d: %s", line, code, said.String())
		}
	}
	if made, _ := os.ReadDir("."); len(made) < 3 {
		t.Errorf("only %d tokens made: this test reads the pages wrongly", len(made))
	}
}

func isProven(line string) bool {
	for _, p := range proven {
		if strings.HasPrefix(line, p.command) {
			return true
		}
	}
	return false
}

// commandsOf are the lines of shell blocks, and of indented blocks outside
// lists, continuation lines joined.
func commandsOf(page string) (lines []string) {
	page = strings.ReplaceAll(page, "\\\n", " ")
	for _, m := range regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```$").FindAllStringSubmatch(page, -1) {
		lines = append(lines, strings.Split(m[1], "\n")...)
	}
	for _, line := range strings.Split(withoutCode(page), "\n") {
		if body, ok := strings.CutPrefix(line, "    "); ok && !regexp.MustCompile(`^\s*([-*|]|\d+\.)\s`).MatchString(body) {
			lines = append(lines, body)
		}
	}
	var all []string
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "|") {
			all = append(all, line)
		}
	}
	return all
}
