package sallyport

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// reviewed are the files that say what is allowed, by question. Mechanism (how it is
// carried, parsed, drawn) stands elsewhere.
var reviewed = []struct{ question, files string }{
	{"Who may come in, and call what?", "plugin/path.go plugin/auth.go plugin/authorize.go plugin/grants.go plugin/claims.go"},
	{"What leaves the edge, and to which hosts?", "plugin/forward.go plugin/egress.go"},
	{"Whom does a backend believe?", "internal/httpd/bearer.go internal/httpd/guard.go internal/identity/identity.go"},
	{"May this call run now?", "sandboxd/serve/call.go hub/lifecycle/admit.go hub/lifecycle/authorize.go internal/approval/approval.go"},
	{"Which files may a tool touch?", "sandboxd/files/path.go sandboxd/files/protect.go"},
	{"What may a command do?", "jail/policy/config.go jail/policy/files.go jail/policy/calls.go jail/policy/numbers.go jail/policy/rule.go sandboxd/command/env.go"},
	{"Which container may exist?", "internal/mcpjson/docker.go internal/mcpjson/mounts.go dockerproxy/container/container.go"},
	{"Which host may a command reach?", "egress/decision/decision.go internal/egressrule/rule.go internal/egressrule/name.go internal/netclass/netclass.go"},
}

// mostReviewed bounds the sum, in lines of code: an evening's reading. Without the
// egress proxy and approvals, which came later, it is below 2,500.
const mostReviewed = 2950

// TestReviewersList keeps the list in docs/request-path.md true, and short.
func TestReviewersList(t *testing.T) {
	code := map[string]int{}
	for _, f := range sources(t) {
		code[f.name] = f.code
	}
	var table strings.Builder
	table.WriteString("| question | files |\n|---|---|\n")
	sum, files := 0, 0
	for _, r := range reviewed {
		lines, names := 0, strings.Fields(r.files)
		for _, name := range names {
			if code[name] == 0 {
				t.Errorf("%s: there is no %s", r.question, name)
			}
			lines += code[name]
		}
		fmt.Fprintf(&table, "| %s | `%s` |\n", r.question, strings.Join(names, "`, `"))
		t.Logf("%5d lines: %s", lines, r.question)
		sum, files = sum+lines, files+len(names)
	}
	fmt.Fprintf(&table, "| together | %d files, at most %d lines of code |\n", files, mostReviewed)
	t.Logf("%5d lines in %d files", sum, files)
	if sum > mostReviewed {
		t.Errorf("%d lines say what is allowed; at most %d can be read in an evening", sum, mostReviewed)
	}
	const page, begin, end = "docs/request-path.md", "<!-- reviewers list -->\n", "<!-- end of reviewers list -->\n"
	text := read(t, page)
	head, rest, _ := strings.Cut(text, begin)
	_, tail, found := strings.Cut(rest, end)
	want := head + begin + table.String() + end + tail
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if !found || want != text {
		t.Errorf("the list in %s is not what the files are: go test . -update", page)
	}
}
