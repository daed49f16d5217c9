package sallyport

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/hub/service"
	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/owner/doctor"
	"github.com/sallyport-dev/sallyport/owner/doctor/replay"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

var update = flag.Bool("update", false, "write the generated pages instead of comparing them")

// A page that is written by hand beside the code drifts from it, so these parts
// come from the code: go test . -update writes them.
func TestGeneratedPages(t *testing.T) {
	for name, part := range map[string]string{
		"docs/configuration.md":   configuration(t),
		"docs/troubleshooting.md": findings(),
	} {
		page := read(t, name)
		const mark = "<!-- from here generated: go test . -update -->\n"
		head, _, found := strings.Cut(page, mark)
		want := head + mark + part
		if *update {
			if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if !found || page != want {
			t.Errorf("%s is not what the code says: go test . -update", name)
		}
	}
}

func findings() string {
	var b bytes.Buffer
	names := []string{}
	for name := range doctor.Findings {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		f := doctor.Findings[name]
		fmt.Fprintf(&b, "\n### %s\n\n**%s.** %s.\n\nFix: %s.\n", name, f.Verdict, upper(f.Cause), f.Fix)
	}
	b.WriteString("\n## What a client stumbles over\n\nFindings of `sallyport doctor -as CLIENT URL`.\n")
	for _, name := range slices.Sorted(maps.Keys(replay.Stumbles)) {
		s := replay.Stumbles[name]
		fmt.Fprintf(&b, "\n### as: %s\n\n**%s.** %s.\n\nFix: %s.\n", name, s.Verdict, upper(s.Cause), s.Fix)
	}
	return b.String()
}

func configuration(t *testing.T) string {
	var b bytes.Buffer
	for _, table := range []config.Table{new(serve.Settings).Table(), new(service.Settings).Table()} {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| variable | flag | default | |\n|---|---|---|---|\n", table.Command, cell(table.Intro))
		for _, s := range table.Settings {
			flag := "`-" + s.Flag() + "`"
			if s.Secret {
				flag = "none: others could read it"
			}
			value := "`" + s.Default + "`"
			switch {
			case s.Required:
				value = "required"
			case s.Default == "":
				value = "none"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Env, flag, value, cell(s.Help))
		}
	}
	return b.String()
}

// docs/plugin.md explains each setting of the middleware by hand: one row for each
// exported field.
func TestPluginPageListsSettings(t *testing.T) {
	page, seen := read(t, "docs/plugin.md"), 0
	for _, f := range sources(t) {
		if f.name != "plugin/config.go" {
			continue
		}
		ast.Inspect(f.tree, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok || field.Tag != nil { // the tagged one catches unknown keys; nobody writes it
				return true
			}
			for _, name := range field.Names {
				if !name.IsExported() {
					continue
				}
				seen++
				if !regexp.MustCompile("(?m)^\\|[^|]*`" + key(name.Name) + "`").MatchString(page) {
					t.Errorf("docs/plugin.md has no row for %s", key(name.Name))
				}
			}
			return true
		})
	}
	if seen < 30 {
		t.Errorf("only %d settings seen: this test reads plugin/config.go wrongly", seen)
	}
}

// key is the name that people write: Traefik does not mind the case.
func key(name string) string {
	for _, acronym := range []string{"SHA256", "OAuth", "JWKSURL"} {
		if name == acronym {
			return map[string]string{"SHA256": "sha256", "OAuth": "oauth", "JWKSURL": "jwksUrl"}[name]
		}
	}
	return strings.ToLower(name[:1]) + name[1:]
}

func cell(s string) string { return strings.NewReplacer("|", "\\|", "<", "&lt;").Replace(s) }

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
