package main_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// Commands of two principals at the same time, on one server: each reaches the hosts of
// its own token, and is recorded under its own name. The twin is in the same run: each
// host is reached by the other principal's commands meanwhile.
func TestPrincipalsAtTheSameTime(t *testing.T) {
	world.dns.Set("a.example", "93.184.215.10")
	world.dns.Set("b.example", "93.184.215.11")
	if !rootHere(t) {
		return
	}
	const each = 6
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			s := startSandbox(t, uid, "a.example,b.example")
			forget()
			var all sync.WaitGroup
			for who, own := range map[string]string{"one": "a.example", "two": "b.example"} {
				other := map[string]string{"a.example": "b.example", "b.example": "a.example"}[own]
				for range each {
					all.Go(func() {
						r := s.run(s.connect(as(who, own)), trust+fmt.Sprintf("curl -sS https://%s/x; curl -sS https://%s/x", own, other))
						if !strings.Contains(r.Stdout, "GET "+own) || strings.Contains(r.Stdout, "GET "+other) || !strings.Contains(strings.Join(r.Notices, ""), fmt.Sprintf("%q to egress: of the token %s", other, who)) {
							t.Errorf("%s: %+v", who, r)
						}
					})
				}
			}
			all.Wait()
			got := map[string]int{}
			awaitThat(t, "all records", func() bool {
				clear(got)
				n := 0
				for _, r := range s.egress.records() {
					if target, _ := detail(r, "target"); r["kind"] == "end" || r["kind"] == "refused" {
						got[fmt.Sprint(r["principal"], " ", target, " ", r["verdict"])]++
						n++
					}
				}
				return n >= 4*each
			})
			for _, want := range []string{"token:one a.example:443 ok", "token:one b.example:443 not_granted", "token:two b.example:443 ok", "token:two a.example:443 not_granted"} {
				if got[want] != each {
					t.Errorf("%q: %d records, want %d: %v", want, got[want], each, got)
				}
			}
			for _, address := range []string{"93.184.215.10:443", "93.184.215.11:443"} {
				if n := len(world.heard(address)); n != each {
					t.Errorf("%s saw %d connections", address, n)
				}
			}
		})
	}
}
