package main

import (
	"os"
	"path/filepath"
	"time"
)

// soaks returns the gates of the long figures: the tests that do more of the same
// when SALLYPORT_SOAK is set. Each runs, whatever became of the one before. The
// first mixes everything for as long as given and writes docs/figures/soak.md.
func soaks(root string, long time.Duration) []gate {
	os.Setenv("SALLYPORT_SOAK", "true") // the name is well formed
	os.Setenv("SALLYPORT_SOAK_FOR", long.String())
	figures = true
	soak := func(name, dir, run string, args ...string) gate {
		args = append([]string{"-count=1", "-timeout=4h", "-p=1", "-v", "-run=" + run}, args...)
		return gate{name: name, run: func(s *sheet) count { return s.goTest(dir, args...) }}
	}
	e2e := filepath.Join(root, "e2e")
	return []gate{
		soak("mixed", e2e, "Mixed", "./soak"),
		soak("files", root, "Soak|SwapRace|SpecialFiles", "./sandboxd/files", "./sandboxd/tool"),
		soak("audit", root, "Tampering|Killed", "./internal/audit"),
		soak("approvals", root, "OneOutcome", "-race", "./internal/approval"),
		soak("owner", e2e, "OwnerStops|PauseRefuses|KilledBetween|HeldCalls", "./sandbox", "./clients"),
		soak("container", e2e, "LockedContainer", "./sandbox"),
		soak("egress", root, "ManyConnectionsAtOnce|KilledEgress", "./egress"),
		soak("jail", root, "LivesThrough|EachRuleIsMissed", "./jail"),
		soak("hub", e2e, "Soak|KilledHub", "./hub", "./proxy"),
		soak("edge", e2e, "Soak", "./edge"),
		soak("login", filepath.Join(root, "login"), "Crashes", "."),
	}
}
