package rig

import "testing"

// An address is given once, although nobody listens on it yet: of five
// hundred out of twelve thousand ports some ten would come twice.
func TestFreeAddrIsGivenOnce(t *testing.T) {
	seen := map[string]bool{}
	for range 500 {
		addr := FreeAddr(t)
		if seen[addr] {
			t.Fatalf("%s was given twice", addr)
		}
		seen[addr] = true
	}
}
