package command

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Half of the places of each kind are one principal's at most; whoever waits gets
// the first that is given back, in order; patience ends; the background never
// waits.
func TestAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAdmission()
		enter := func(owner string, k kind) func() {
			t.Helper()
			leave, err := a.enter(t.Context(), owner, k)
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		var leave []func()
		for _, k := range []kind{waitedFor, background} {
			for range maxShare {
				leave = append(leave, enter("alice", k))
			}
		}
		for range maxShare {
			leave = append(leave, enter("alice", walk))
		}
		if _, err := a.enter(t.Context(), "alice", walk); err == nil || !strings.Contains(err.Error(), "8 lists and searches of yours") {
			t.Errorf("alice's ninth search: %v", err)
		}
		enter("bob", walk)()
		if _, err := a.enter(t.Context(), "alice", background); err == nil ||
			!strings.Contains(err.Error(), "8 commands of yours already run in the background") {
			t.Errorf("alice's ninth in the background: %v", err)
		}
		began := time.Now()
		if _, err := a.enter(t.Context(), "alice", waitedFor); err == nil ||
			!strings.Contains(err.Error(), "8 commands of yours run already") || time.Since(began) != patience {
			t.Errorf("alice's ninth: %v after %v", err, time.Since(began))
		}
		for range maxShare {
			leave = append(leave, enter("bob", waitedFor))
		}
		order := make(chan string, 3)
		for _, owner := range []string{"carol", "alice", "dave"} {
			go func() {
				gone, err := a.enter(t.Context(), owner, waitedFor)
				if err != nil {
					order <- err.Error()
					return
				}
				order <- owner
				_ = gone
			}()
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, err := a.enter(ctx, "erin", waitedFor); order <- err.Error() }()
		synctest.Wait()
		cancel()
		if got := <-order; got != context.Canceled.Error() {
			t.Errorf("the one that went away: %s", got)
		}
		leave[0]() // alice's: carol came first
		if got := <-order; got != "carol" {
			t.Errorf("first %s", got)
		}
		leave[3*maxShare]() // bob's: alice waits, and has room now
		if got := <-order; got != "alice" {
			t.Errorf("second %s", got)
		}
		leave[3*maxShare]() // twice is once
		synctest.Wait()
		select {
		case got := <-order:
			t.Errorf("without a place: %s", got)
		default:
		}
		if got := <-order; !strings.Contains(got, "16 commands run already") {
			t.Errorf("dave, in the end: %s", got)
		}
	})
}

// Nothing is kept of principals that run nothing.
func TestAdmissionForgets(t *testing.T) {
	a := newAdmission()
	for range 1000 {
		leave, err := a.enter(t.Context(), "a", waitedFor)
		if err != nil {
			t.Fatal(err)
		}
		leave()
	}
	if len(a.of) > 0 || len(a.waiting) > 0 || a.all != [kinds]int{} {
		t.Errorf("%+v", a)
	}
}

func TestDirName(t *testing.T) {
	seen := map[string]string{}
	for _, person := range []string{"token:a", "token:A", "token%3Aa", "oauth:a@b.example", "..", ".", "oauth:..",
		"a/b", "a|b", "A", "local", "token_3aa", "a_b", "a_5fb"} {
		name := dirName(person)
		if other := seen[name]; other != "" || strings.HasPrefix(name, ".") ||
			strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-._") != "" {
			t.Errorf("%q: %q, as %q", person, name, other)
		}
		seen[name] = person
	}
}
