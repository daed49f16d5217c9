package plugin

import (
	"strings"
	"testing"
)

// mayCall is granted for a list that is read one by one, as simple as it can be.
func mayCall(backend string, list []*grant, server, tool string) (bool, bool) {
	may := false
	asked := false
	for _, g := range list {
		if g.method || (g.server != "" && g.server != server) || (g.tool != "" && g.tool != tool) {
			continue
		}
		may = true
		asked = asked || g.ask
	}
	return may, asked
}

func readGrants(backend, text string) []*grant {
	var list []*grant
	for _, entry := range strings.Split(text, ",") {
		if g, wrong := parseGrant(backend, entry); wrong == "" {
			list = append(list, g)
		}
	}
	return list
}

// FuzzNarrowed: a claim cut to a ceiling grants what both do, and nothing else, and
// asks where either does; the compiled form and the headers say the same.
func FuzzNarrowed(f *testing.F) {
	f.Add("git/*,ask:git/push", "git/*", "git", "push")
	f.Add("*,ask:git/push", "ask:*", "git", "push")
	f.Add("git/user%2Fupdate", "git/user%2fupdate,method:ping", "git", "user/update")
	f.Add("git/%2A,files/*", "*", "git", "*")
	f.Fuzz(func(t *testing.T, ceiling, claim, server, tool string) {
		if server == "" || tool == "" || strings.ContainsAny(server, "/") {
			return
		}
		for _, backend := range []string{"hub", "sandbox"} {
			place := server
			if backend != "hub" {
				place = ""
			}
			c := readGrants(backend, ceiling)
			w := readGrants(backend, claim)
			got := narrowed(backend, c, w)
			inCeiling, askedByCeiling := mayCall(backend, c, place, tool)
			inClaim, askedByClaim := mayCall(backend, w, place, tool)
			path := ""
			if place != "" {
				path = "servers/" + place
			}
			may := got.all || granted(got, path, tool)
			if may != (inCeiling && inClaim) {
				t.Fatalf("%s: %q cut to %q: %q of %q is %v", backend, claim, ceiling, tool, place, may)
			}
			asked := may && got.asking != nil && (got.asking.all || granted(got.asking, path, tool))
			if may && asked != (askedByCeiling || askedByClaim) {
				t.Fatalf("%s: %q cut to %q: %q of %q is asked about: %v", backend, claim, ceiling, tool, place, asked)
			}
			if backend == "sandbox" && !got.all && got.free[tool] != (may && !asked) {
				t.Fatalf("%q cut to %q: the fast path says %v of %q", claim, ceiling, got.free[tool], tool)
			}
			again := readGrants(backend, got.toolsHeader[0])
			if told, _ := mayCall(backend, again, place, tool); told != may {
				t.Fatalf("the header %q says %v of %q", got.toolsHeader[0], told, tool)
			}
		}
	})
}

// FuzzEgressRule: what is read is written so that it is read as the same, and no
// rule that is cut to another allows more than both.
func FuzzEgressRule(f *testing.F) {
	f.Add("*.example.org:8443", "a.example.org:8443")
	f.Add("http://deb.example.org", "*")
	f.Add("A.example:443", "a.example")
	f.Fuzz(func(t *testing.T, a, b string) {
		outer := parseRule(a)
		if outer == nil {
			return
		}
		if again := parseRule(outer.text); again == nil || *again != *outer {
			t.Fatalf("%q is written %q, which is read as %+v", a, outer.text, again)
		}
		if strings.ContainsAny(outer.text, ", \t\r\n@%/\\") && !strings.HasPrefix(outer.text, "http://") {
			t.Fatalf("%q is a rule", outer.text)
		}
		both := narrowedRules([]string{outer.text}, []string{b})
		if len(both) == 0 {
			return
		}
		got := parseRule(both[0])
		if inner := parseRule(b); !ruleCovers(outer, got) || !ruleCovers(inner, got) {
			t.Fatalf("%q and %q allow %q", a, b, both[0])
		}
	})
}
