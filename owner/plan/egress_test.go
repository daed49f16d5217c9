package plan

import (
	"fmt"
	"strings"
	"testing"
)

// Each rule of the ceiling is a line of its own, so that one that was added
// is seen in the difference; so is what commands get by it.
func TestEgressIsListed(t *testing.T) {
	read := func(allow, network string) Plan {
		p, err := composePlan([]byte(fmt.Sprintf(`{"services": {"egress": {"user": "1:1", "environment": {"EGRESS_ALLOW": %q}},
			"sandboxd": {"user": "1:1", "environment": {"MCP_COMMAND_NETWORK": %q}}}}`, allow, network)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before, after := read("a.example", "allowlist"), read("a.example,*.b.example", "allowlist")
	more := fmt.Sprint(after.beyond(before))
	if !strings.Contains(more, "connect commands to *.b.example") || strings.Contains(more, "a.example,") || strings.Contains(more, "to a.example") {
		t.Errorf("the growth is %s", more)
	}
	if all := fmt.Sprint(after); !strings.Contains(all, "what their token and egress allow") || strings.Contains(all, "the container's network") {
		t.Errorf("the sandbox: %s", all)
	}
}
