package decision_test

import (
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
)

// A refusal suggests no rule that would not help: loopback never opens.
func TestNoRuleForThisMachine(t *testing.T) {
	for name, helps := range map[string]bool{
		"localhost:3000": false, "LOCALHOST:80": false, "app.localhost:8080": false,
		"packages.example.org:443": true, "localhost.example.org:443": true, "gitea:3000": true,
	} {
		target, err := egressrule.Authority(name, false)
		if err != nil {
			t.Fatal(err)
		}
		_, refusal := decision.Decide(target, "token:a", nil, nil, "EGRESS_ALLOW")
		if refusal == nil {
			t.Fatalf("%s is allowed by no rule", name)
		}
		if suggests := strings.Contains(refusal.Say, "add the rule"); suggests != helps || (refusal.Rule != "") != helps {
			t.Errorf("%s: %q, rule %q", name, refusal.Say, refusal.Rule)
		}
		if !helps && !strings.Contains(refusal.Say, "NO_PROXY") {
			t.Errorf("%s: %q says no way", name, refusal.Say)
		}
	}
}
