package approval_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
)

var writeX = approval.Key{Principal: "token:poke", Tool: "write_file", Digest: "d1", File: "f1"}

func request(k approval.Key) approval.Request {
	return approval.Request{Key: k, Arguments: []byte(`{"path":"x"}`), Hold: approval.Hold}
}

// wait starts a call and returns where its verdict arrives.
func wait(t *testing.T, s *approval.Store, r approval.Request) <-chan approval.Verdict {
	out := make(chan approval.Verdict, 1)
	go func() { out <- s.Wait(t.Context(), r) }()
	synctest.Wait()
	return out
}

// one returns the only request that waits.
func one(t *testing.T, s *approval.Store) approval.Waiting {
	t.Helper()
	list := s.Waiting()
	if len(list) != 1 {
		t.Fatalf("%d requests wait, want 1: %+v", len(list), list)
	}
	return list[0]
}

func decide(t *testing.T, s *approval.Store, d approval.Decision) {
	t.Helper()
	if err := s.Decide(d, nil); err != nil {
		t.Fatal(err)
	}
}

func verdict(t *testing.T, got <-chan approval.Verdict, want approval.Outcome) approval.Verdict {
	t.Helper()
	synctest.Wait()
	select {
	case v := <-got:
		if v.Outcome != want {
			t.Fatalf("outcome %d, want %d", v.Outcome, want)
		}
		return v
	default:
		t.Fatalf("no outcome yet, want %d", want)
	}
	panic("unreachable")
}

func TestApprovedRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := approval.New(nil)
		first := wait(t, s, request(writeX))
		decide(t, s, approval.Decision{ID: one(t, s).ID, Approve: true})
		verdict(t, first, approval.Approved)
		again := wait(t, s, request(writeX)) // the decision is used up
		decide(t, s, approval.Decision{ID: one(t, s).ID, Reason: "no"})
		if v := verdict(t, again, approval.Denied); v.Reason != "no" {
			t.Errorf("reason %q", v.Reason)
		}
	})
}

// A decision binds everything that the key names: each other call asks anew.
func TestDecisionBindsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, other := range map[string]approval.Key{
			"principal": {Principal: "token:other", Tool: "write_file", Digest: "d1", File: "f1"},
			"server":    {Principal: "token:poke", Server: "s", Tool: "write_file", Digest: "d1", File: "f1"},
			"tool":      {Principal: "token:poke", Tool: "edit_file", Digest: "d1", File: "f1"},
			"arguments": {Principal: "token:poke", Tool: "write_file", Digest: "d2", File: "f1"},
			"file":      {Principal: "token:poke", Tool: "write_file", Digest: "d1", File: "f2"},
		} {
			s := approval.New(nil)
			r := request(writeX)
			r.Hold = time.Second
			verdict(t, sleepAfter(wait(t, s, r), time.Second), approval.Pending)
			decide(t, s, approval.Decision{ID: one(t, s).ID, Approve: true})
			foreign := wait(t, s, request(other))
			if len(s.Waiting()) != 1 {
				t.Errorf("another %s: the decision was used by it", name)
			}
			decide(t, s, approval.Decision{ID: one(t, s).ID})
			verdict(t, foreign, approval.Denied)
			verdict(t, wait(t, s, request(writeX)), approval.Approved) // twin: the call itself
		}
	})
}

func sleepAfter[T any](v T, d time.Duration) T {
	time.Sleep(d)
	return v
}

// A call is held for so long, then pending; the same call attaches to the
// request and gets what was decided meanwhile.
func TestPendingAndRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := approval.New(nil)
		for _, hold := range []time.Duration{approval.Hold, approval.HoldProgress} {
			r := request(writeX)
			r.Hold = hold
			got := wait(t, s, r)
			time.Sleep(hold - time.Second)
			synctest.Wait()
			if len(got) != 0 {
				t.Fatalf("answered before %v", hold)
			}
			time.Sleep(time.Second)
			v := verdict(t, got, approval.Pending)
			if w := one(t, s); w.ID != v.ID || w.Held != 0 || !w.Expires.Equal(v.Until) {
				t.Errorf("%+v, %+v", v, w)
			}
		}
		decide(t, s, approval.Decision{ID: one(t, s).ID, Approve: true})
		verdict(t, wait(t, s, request(writeX)), approval.Approved)
	})
}

// Nobody decides: the call that is held hears so. A decision that nobody uses
// expires too, and runs nothing later.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := approval.New(nil)
		r := request(writeX)
		r.Hold = time.Hour
		held := wait(t, s, r)
		id := one(t, s).ID
		time.Sleep(approval.Expiry)
		verdict(t, held, approval.Expired)
		if err := s.Decide(approval.Decision{ID: id, Approve: true}, nil); !errors.Is(err, approval.ErrUnknown) {
			t.Errorf("a decision after the expiry: %v", err)
		}
		r.Hold = time.Second
		verdict(t, sleepAfter(wait(t, s, r), time.Second), approval.Pending)
		decide(t, s, approval.Decision{ID: one(t, s).ID, Approve: true})
		time.Sleep(approval.Expiry + time.Second)
		wait(t, s, request(writeX))
		one(t, s) // it asks again
	})
}

func TestScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		otherCall := writeX
		otherCall.Digest = "d2"
		otherFile := writeX
		otherFile.File = "f2"
		otherWho := writeX
		otherWho.Principal = "token:other"
		for scope, allowed := range map[string][]approval.Key{
			approval.Once:   nil,
			approval.Digest: {writeX, otherFile},
			approval.Tool:   {writeX, otherFile, otherCall},
		} {
			s := approval.New(nil)
			first := wait(t, s, request(writeX))
			decide(t, s, approval.Decision{ID: one(t, s).ID, Approve: true, Scope: scope})
			verdict(t, first, approval.Approved)
			for _, k := range allowed {
				verdict(t, wait(t, s, request(k)), approval.Approved)
			}
			wait(t, s, request(otherWho))
			if len(s.Waiting()) != 1 {
				t.Errorf("%s: another principal did not ask", scope)
			}
			time.Sleep(approval.Standing)
			wait(t, s, request(writeX))
			if len(s.Waiting()) != 1 { // the other principal's has expired by now
				t.Errorf("%s: still in force after %v", scope, approval.Standing)
			}
			if err := s.Decide(approval.Decision{ID: one(t, s).ID, Approve: true, Scope: "always"}, nil); !errors.Is(err, approval.ErrScope) {
				t.Errorf("scope always: %v", err)
			}
		}
	})
}

func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := approval.New(nil)
		for n := range approval.MaxWaiting {
			k := writeX
			k.Digest = fmt.Sprint(n)
			wait(t, s, request(k))
		}
		verdict(t, wait(t, s, request(writeX)), approval.TooMany)
		other := writeX
		other.Principal = "token:other"
		if wait(t, s, request(other)); len(s.Waiting()) != approval.MaxWaiting+1 {
			t.Error("twin: another principal does not wait")
		}
		big := request(approval.Key{Principal: "token:third", Tool: "x", Digest: "d"})
		big.Arguments = make([]byte, 17<<20)
		verdict(t, wait(t, s, big), approval.TooMany)
		verdict(t, wait(t, s, request(approval.Key{Principal: "p", Tool: "x"})), approval.Unclear)
		for n := range 9 { // one that fills its half leaves the other half to others
			large := request(approval.Key{Principal: "token:large", Tool: "x", Digest: fmt.Sprint(n)})
			large.Arguments = make([]byte, 1<<20)
			if held := wait(t, s, large); n == 8 {
				verdict(t, held, approval.TooMany)
			}
		}
		before := len(s.Waiting())
		last := request(approval.Key{Principal: "token:small", Tool: "x", Digest: "d"})
		last.Arguments = make([]byte, 7<<20)
		if wait(t, s, last); len(s.Waiting()) != before+1 {
			t.Error("twin: another principal's large call does not wait")
		}
	})
}

// One call that takes all the room keeps no usual call of others out, only large ones.
func TestOneLargeCallLeavesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := approval.New(nil)
		ask := func(principal string, size int) <-chan approval.Verdict {
			r := request(approval.Key{Principal: principal, Tool: "x", Digest: fmt.Sprint(size)})
			r.Arguments = make([]byte, size)
			return wait(t, s, r)
		}
		ask("token:large", 16<<20)
		if ask("token:a", 10<<10); len(s.Waiting()) != 2 {
			t.Error("a small call of another principal does not wait")
		}
		verdict(t, ask("token:b", 100<<10), approval.TooMany)
		for n := range 8 {
			if held := ask("token:a", 10<<10+1+n); n >= 6 {
				verdict(t, held, approval.TooMany)
			}
		}
	})
}

// A decision that cannot be recorded is none.
func TestDecisionIsRecordedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := approval.New(nil)
		held := wait(t, s, request(writeX))
		id, full := one(t, s).ID, errors.New("disk full")
		if err := s.Decide(approval.Decision{ID: id, Approve: true}, func(approval.Waiting) error { return full }); !errors.Is(err, full) {
			t.Errorf("%v", err)
		}
		if synctest.Wait(); len(held) != 0 {
			t.Error("the call runs")
		}
		decide(t, s, approval.Decision{ID: id, Approve: true})
		verdict(t, held, approval.Approved)
	})
}

// Two command lines, a page, an expiry and the client's repetitions at once:
// one decision counts, and the call runs at most once, never without it.
func TestOneOutcomeWhateverRaces(t *testing.T) {
	rounds := 50
	if os.Getenv("SALLYPORT_SOAK") != "" {
		rounds = 1000
	}
	for round := range rounds {
		s := approval.New(nil)
		expiry := time.Duration(round%5) * 300 * time.Microsecond
		s.SetExpiry(5*time.Millisecond + expiry)
		var ran, approved, denied atomic.Int32
		var all sync.WaitGroup
		r := request(writeX)
		r.Hold = 3 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		for range 3 {
			all.Go(func() {
				for ctx.Err() == nil {
					if s.Wait(ctx, r).Outcome == approval.Approved {
						ran.Add(1)
					}
				}
			})
		}
		var waiting []approval.Waiting
		for len(waiting) == 0 {
			waiting = s.Waiting()
		}
		for n := range 3 {
			all.Go(func() {
				approve := n != 1
				time.Sleep(time.Duration(round%3) * 2500 * time.Microsecond)
				if s.Decide(approval.Decision{ID: waiting[0].ID, Approve: approve}, nil) != nil {
					return
				}
				if approve {
					approved.Add(1)
				} else {
					denied.Add(1)
				}
			})
		}
		time.Sleep(8 * time.Millisecond)
		cancel()
		all.Wait()
		if approved.Load()+denied.Load() > 1 || ran.Load() > approved.Load() {
			t.Fatalf("round %d: approved %d times, denied %d times, ran %d times", round, approved.Load(), denied.Load(), ran.Load())
		}
	}
}
