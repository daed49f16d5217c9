package run_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// make env tells the policy proxy what no container may mount: it adds the
// setting to an .env of an older version, changes none that is there, and refuses
// one that lacks the workspace.
func TestEnvForbidsSources(t *testing.T) {
	c := rig.NewCheckout(t, uint32(os.Geteuid()))
	c.Make("env", "WORKSPACE=../beside")
	env := filepath.Join(c.Dir, ".env")
	read := func() string {
		raw, err := os.ReadFile(env)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	real := func(name string) string {
		path, err := filepath.EvalSymlinks(filepath.Join(c.Dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	write := func(text string) {
		if err := os.WriteFile(env, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	line := regexp.MustCompile(`(?m)^SALLYPORT_FORBIDDEN_SOURCES='(.*)'\n`)
	whole := read()
	found := line.FindStringSubmatch(whole)
	if found == nil || !strings.HasPrefix(found[1], real("../beside")+":"+real(".")) {
		t.Fatalf("written: %s", whole)
	}
	write(line.ReplaceAllString(whole, "")) // of an older version
	c.Make("env")
	if got := read(); line.FindStringSubmatch(got) == nil || len(got) != len(whole) {
		t.Errorf("added: %s", got)
	}
	mine := line.ReplaceAllString(whole, "SALLYPORT_FORBIDDEN_SOURCES='"+found[1]+":/srv/more'\n")
	for _, text := range []string{mine, line.ReplaceAllString(whole, "SALLYPORT_FORBIDDEN_SOURCES=none\n")} {
		write(text)
		if c.Make("env"); read() != text {
			t.Errorf("changed: %s", read())
		}
	}
	write(strings.Replace(mine, "SOURCES='"+real("../beside")+":", "SOURCES='", 1))
	if out, err := c.Command("make", "env").CombinedOutput(); err == nil || !strings.Contains(string(out), "lacks "+real("../beside")) {
		t.Errorf("without the workspace: %v %s", err, out)
	}
}
