package session_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport-dev/sallyport/internal/session"
)

// reserve opens a session that is idle at once.
func reserve(t *testing.T, table *session.Table, principal, id string, ended *[]string) {
	t.Helper()
	s, err := table.Reserve(principal)
	if err != nil {
		t.Fatal(err)
	}
	s.Bind(id, func() { *ended = append(*ended, id) })
	s.Leave()
}

func enter(table *session.Table, id, principal string) error {
	s, err := table.Enter(id, principal)
	if err == nil {
		s.Leave()
	}
	return err
}

func TestSessionsHaveOwners(t *testing.T) {
	table, ended := session.NewTable(2), []string(nil)
	reserve(t, table, "alice", "1", &ended)
	for _, c := range []struct {
		id, principal string
		want          error
	}{
		{"1", "alice", nil},
		{"1", "bob", session.ErrNotOwner},
		{"1", "", session.ErrNotOwner},
		{"2", "alice", session.ErrUnknown},
		{"", "alice", session.ErrUnknown},
	} {
		if err := enter(table, c.id, c.principal); err != c.want {
			t.Errorf("%q by %q: %v, want %v", c.id, c.principal, err, c.want)
		}
	}
}

// A full table refuses, until a session has been idle for long; one with an
// open request is never evicted.
func TestFullTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ended := session.NewTable(2), []string(nil)
		busy, _ := table.Reserve("alice")
		busy.Bind("busy", func() { t.Error("a session in use was ended") })
		reserve(t, table, "alice", "idle", &ended)
		if _, err := table.Reserve("alice"); err != session.ErrFull {
			t.Fatalf("a third session: %v", err)
		}
		time.Sleep(6 * time.Minute)
		s, err := table.Reserve("bob")
		synctest.Wait()
		if err != nil || len(ended) != 1 || enter(table, "idle", "alice") != session.ErrUnknown {
			t.Errorf("after a while: %v, ended %v", err, ended)
		}
		if _, err := table.Reserve("alice"); err != session.ErrFull {
			t.Errorf("with two in use: %v", err)
		}
		s.Leave() // it never got an ID
		if table.Len() != 1 {
			t.Errorf("%d sessions, want 1", table.Len())
		}
	})
}

// A client that opens a session for each call and ends none shuts nobody out:
// neither itself nor others.
func TestOneSessionForEachCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ended := session.NewTable(20), []string(nil)
		reserve(t, table, "bob", "bob", &ended)
		for i := range 40 {
			reserve(t, table, "alice", fmt.Sprint(i), &ended)
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		if err := enter(table, "bob", "bob"); err != nil {
			t.Errorf("bob's session: %v", err)
		}
		reserve(t, table, "carol", "carol", &ended)
		synctest.Wait()
		if slices.Contains(ended, "bob") || !slices.Contains(ended, "0") {
			t.Errorf("ended: %v", ended)
		}
	})
}

// One principal that fills the table and uses each of its sessions again and again shuts
// nobody out either: it yields the oldest that has no open request, down to an eighth
// more than who asks has. Where all hold as much, a full table is full.
func TestNobodyHoldsTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ended := session.NewTable(24), []string(nil)
		busy, err := table.Reserve("alice")
		if err != nil {
			t.Fatal(err)
		}
		busy.Bind("busy", func() { t.Error("a session in use was ended") })
		for i := range 23 {
			reserve(t, table, "alice", fmt.Sprint(i), &ended)
			time.Sleep(time.Millisecond)
		}
		got := 0
		for range 24 {
			for i := range 23 {
				enter(table, fmt.Sprint(i), "alice")
				time.Sleep(time.Millisecond)
			}
			s, err := table.Reserve("bob")
			if err != nil {
				break
			}
			defer s.Leave()
			got++
			synctest.Wait()
		}
		if got != 11 || len(ended) != got || ended[0] != "0" {
			t.Errorf("bob has %d sessions; ended: %v", got, ended)
		}
		if _, err := table.Reserve("alice"); err != session.ErrFull {
			t.Errorf("alice takes them back: %v", err)
		}
		even := session.NewTable(24)
		for i := range 24 {
			reserve(t, even, fmt.Sprint(i), fmt.Sprint(i), &ended)
		}
		if _, err := even.Reserve("bob"); err != session.ErrFull {
			t.Errorf("twin, a table that nobody has more of than others: %v", err)
		}
	})
}

func TestIdleSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ended := session.NewTable(9), []string(nil)
		reserve(t, table, "alice", "1", &ended)
		busy, _ := table.Reserve("alice")
		busy.Bind("busy", func() { ended = append(ended, "busy") })
		time.Sleep(session.Idle - time.Second)
		table.EndIdle(session.Idle)
		if table.Len() != 2 {
			t.Errorf("a session ended early: %v", ended)
		}
		time.Sleep(2 * time.Second)
		table.EndIdle(session.Idle)
		synctest.Wait()
		if table.Len() != 1 || len(ended) != 1 || ended[0] != "1" {
			t.Errorf("ended %v", ended)
		}
		table.EndAll()
		synctest.Wait()
		if table.Len() != 0 || len(ended) != 2 {
			t.Errorf("at the end: %v", ended)
		}
		busy.Leave()
		busy.End()
		if late, err := table.Reserve("alice"); err != nil {
			t.Error(err)
		} else {
			late.End()
			late.Bind("late", func() { ended = append(ended, "late") })
			synctest.Wait()
			if table.Len() != 0 || len(ended) != 3 {
				t.Errorf("a session bound after its end lives: %v", ended)
			}
		}
	})
}
