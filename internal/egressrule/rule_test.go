package egressrule_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/egressrule"
)

// The vectors are shared with the plugin, which reads the same syntax with
// code of its own.
func TestVectors(t *testing.T) {
	raw, err := os.ReadFile("../../testdata/egress/rules.tsv")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := append(strings.Split(strings.TrimSuffix(line, "\n"), "\t"), "")
		rule, err := strconv.Unquote(`"` + cells[1] + `"`)
		if err != nil {
			t.Fatal(line, err)
		}
		check(t, rule, "token", cells[0], cells[2], egressrule.Parse)
		check(t, rule, "ceiling", cells[0], cells[2], egressrule.ParseCeiling)
		n++
	}
	if n < 60 {
		t.Errorf("only %d vectors read", n)
	}
}

func check(t *testing.T, rule, place, where, canonical string, parse func(string) (egressrule.Rule, error)) {
	t.Helper()
	r, err := parse(rule)
	if valid := where == "any" || where == place; valid != (err == nil) {
		t.Errorf("%q as a rule of a %s: %v", rule, place, err)
	} else if valid && r.String() != canonical {
		t.Errorf("%q is written %q, want %q", rule, r, canonical)
	} else if again, err := parse(canonical); valid && (again != r || err != nil) {
		t.Errorf("%q is not what it prints: %v, %v", rule, again, err)
	}
}

func TestAllows(t *testing.T) {
	for _, c := range []struct {
		rule, target string
		clear, want  bool
	}{
		{"api.example.com", "api.example.com:443", false, true},
		{"api.example.com", "API.example.com", false, true},
		{"api.example.com", "api.example.com:8443", false, false},
		{"api.example.com", "api.example.com:443", true, false},
		{"api.example.com", "x.api.example.com:443", false, false},
		{"api.example.com", "xapi.example.com:443", false, false},
		{"api.example.com", "api.example.com.evil.example:443", false, false},
		{"*.example.org", "a.example.org:443", false, true},
		{"*.example.org", "a.b.example.org:443", false, true},
		{"*.example.org", "example.org:443", false, false},
		{"*.example.org", "aexample.org:443", false, false},
		{"*.example.org", "a.example.org.evil.example:443", false, false},
		{"http://example.org", "example.org:80", true, true},
		{"http://example.org", "example.org:80", false, false},
		{"http://example.org", "example.org", true, true},
		{"*", "anything.example:1", false, true},
	} {
		r, err := egressrule.Parse(c.rule)
		if err != nil {
			t.Fatal(err)
		}
		target, err := egressrule.Authority(c.target, c.clear)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Allows(target); got != c.want {
			t.Errorf("%s allows %s (clear %v): %v", c.rule, c.target, c.clear, got)
		}
	}
}

// Names that programs read in different ways never become a target.
func TestAuthorityRefuses(t *testing.T) {
	for _, s := range []string{
		"", ":443", "127.0.0.1:443", "0x7f000001:443", "2130706433:443", "0177.1:443", "[::1]:443", "::1", "a.example.:443", "a.example:443:1",
		"a.example:", "a.example:00443", "user@a.example:443", "a.example\x00.b.example:443", "a%00.example:443", "a%2e.example:443", "a.example/:443",
		"bücher.example:443", "a。example:443", "a .example:443", "a_b.example:443", "a.example:443 ", "a.example:４４３", "١.example:443", "a.example:-1",
		strings.Repeat("a", 64) + ".example:443", strings.Repeat("a.", 127) + "example:443", "169.254.169.254:80", "a.169.254.169.254:80", "a.0xA9FEA9FE:80",
	} {
		if target, err := egressrule.Authority(s, false); err == nil {
			t.Errorf("%q became %v", s, target)
		}
	}
}

func TestParseListNamesEveryMistake(t *testing.T) {
	_, err := egressrule.ParseList([]string{"a.example", "*.com", "A.example", "10.0.0.1"}, egressrule.Parse)
	for _, want := range []string{`"*.com"`, `"A.example"`, `"10.0.0.1"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is not named: %v", want, err)
		}
	}
	if _, err := egressrule.ParseList(make([]string, egressrule.MaxRules+1), egressrule.Parse); err == nil {
		t.Error("a list without end was read")
	}
}

// Of two rules that allow a target the private one counts, in any order.
func TestPrivateRuleComesFirst(t *testing.T) {
	for _, texts := range [][]string{{"gitea.home:3000", "private:gitea.home:3000"}, {"private:gitea.home:3000", "gitea.home:3000"}} {
		list, err := egressrule.ParseList(texts, egressrule.ParseCeiling)
		if err != nil {
			t.Fatal(err)
		}
		target, _ := egressrule.Authority("gitea.home:3000", false)
		if r, ok := list.Find(target); !ok || !r.Private {
			t.Errorf("%v: %v, %v", texts, r, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"*", "*.example.org:8443", "http://a.example", "private:a:1", "0x7f.1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := egressrule.ParseCeiling(s)
		if err != nil {
			return
		}
		if again, err := egressrule.ParseCeiling(r.String()); again != r || err != nil {
			t.Errorf("%q prints %q, which is %v, %v", s, r, again, err)
		}
		if strings.ContainsAny(r.Name, "\x00%/@:[] *_") || strings.HasSuffix(r.Name, ".") {
			t.Errorf("%q has the name %q", s, r.Name)
		}
	})
}
