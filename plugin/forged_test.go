package plugin

import (
	"strconv"
	"testing"
)

// A token that no key of the issuer signed costs the same whatever it claims,
// and a right one passes, while the address is locked out too.
func TestForgedTokensCostLittle(t *testing.T) {
	logged(t)
	p := newIDP(t)
	c := p.config()
	c.FailuresPerMinute = 1
	h := start(t, c, &seen{})
	ask := func(token string) int {
		r := post("/mcp/mcp", readFile)
		r.Header.Set("Authorization", "Bearer "+token)
		return do(h, r).Code
	}
	right := p.sign(t, map[string]interface{}{"alg": "ES256", "kid": "e"}, p.claimsFor(nil))
	if code := ask(right); code != 200 {
		t.Fatalf("a right token: status %d", code)
	}
	for ask(otherToken) != 429 {
	}
	forged := func(n int) string {
		changes := map[string]interface{}{}
		for i := 0; i < n; i++ {
			changes["c"+strconv.Itoa(i)] = i
		}
		token := p.sign(t, map[string]interface{}{"alg": "ES256", "kid": "e"}, p.claimsFor(changes))
		return token[:len(token)-8] + "AAAAAAAA"
	}
	cost := func(token string) float64 {
		return testing.AllocsPerRun(10, func() {
			if code := ask(token); code != 429 {
				t.Errorf("a forged token: status %d", code)
			}
		})
	}
	if few, many := cost(forged(1)), cost(forged(700)); many > few+few/2 {
		t.Errorf("700 claims cost %.0f allocations, one %.0f", many, few)
	}
	if code := ask(p.sign(t, map[string]interface{}{"alg": "ES256", "kid": "e"}, p.claimsFor(map[string]interface{}{"sub": "bob"}))); code != 200 {
		t.Errorf("another right token of a locked address: status %d", code)
	}
}
