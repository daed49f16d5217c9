package owner

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestPassword(t *testing.T) {
	hash, err := HashPassword("correct horse battery")
	if err != nil || !ValidHash(hash) {
		t.Fatal(hash, err)
	}
	if !CheckPassword(hash, "correct horse battery") || CheckPassword(hash, "correct horse batterz") || CheckPassword("", "") || CheckPassword("", "nobody's") {
		t.Error("wrong verdict")
	}
	for _, bad := range []string{"short", strings.Repeat("x", MaxPassword+1), "elf Zeichen"} {
		if _, err := HashPassword(bad); err == nil {
			t.Errorf("%q was taken", bad[:min(len(bad), 20)])
		}
	}
	for _, bad := range []string{"x", "$argon2i$v=19$m=65536,t=3,p=1$AAAA$AAAA", strings.Replace(hash, "t=3", "t=1", 1)} {
		if ValidHash(bad) {
			t.Errorf("%q is valid", bad)
		}
	}
}

// Whether there is a password cannot be told from what a wrong one costs: each refusal
// fills argon2id's 64 MiB once, with the one cost that derive knows. Time is logged only,
// since other processes move it. The twin, which looks at the hash first, costs nothing.
func TestPasswordTiming(t *testing.T) {
	hash, _ := HashPassword("correct horse battery")
	cost := func(check func()) (bytes uint64, took time.Duration) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		begin := time.Now()
		check()
		took = time.Since(begin)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc, took
	}
	const once, slack = 64 << 20, 1 << 20
	for name, row := range map[string][2]string{
		"a wrong password": {hash, "wrong"}, "no password": {"", "wrong"}, "a damaged hash": {hash[:len(hash)-1], "wrong"},
		"another cost": {strings.Replace(hash, "t=3", "t=1", 1), "wrong"}, "a password that is too long": {hash, strings.Repeat("x", MaxPassword+1)},
		"an empty password": {hash, ""}, "the right one": {hash, "correct horse battery"},
	} {
		bytes, took := cost(func() { CheckPassword(row[0], row[1]) })
		if t.Logf("%s: %d bytes, %v", name, bytes, took); bytes < once || bytes > once+slack {
			t.Errorf("%s fills %d bytes, not %d", name, bytes, once)
		}
	}
	if bytes, _ := cost(func() { _ = ValidHash("") && CheckPassword("", "wrong") }); bytes > slack {
		t.Errorf("the twin fills %d bytes", bytes)
	}
}

// Strangers' guesses are slowed down together; a known browser does not wait for them,
// and nobody is locked out.
func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &Throttle{Now: time.Now}
		wrong, right := func() bool { return false }, func() bool { return true }
		begin := time.Now()
		for n := range 100 {
			if _, err := th.Try(t.Context(), "address "+string(rune('a'+n%50)), false, wrong); err != nil {
				t.Fatal(err)
			}
		}
		if slow := time.Since(begin); slow < 10*time.Minute {
			t.Errorf("100 guesses from 50 addresses took %v", slow)
		}
		begin = time.Now()
		if ok, err := th.Try(t.Context(), "device", true, right); !ok || err != nil || time.Since(begin) != 0 {
			t.Errorf("the owner's browser waited %v: %v", time.Since(begin), err)
		}
		begin = time.Now()
		if ok, err := th.Try(t.Context(), "new", false, right); !ok || err != nil || time.Since(begin) > maxDelay {
			t.Errorf("the owner elsewhere waited %v: %v", time.Since(begin), err)
		}
		time.Sleep(forgetAfter + time.Second)
		begin = time.Now()
		if ok, _ := th.Try(t.Context(), "address a", false, right); !ok || time.Since(begin) != 0 {
			t.Error("failures are not forgotten")
		}
	})
}

// Of guesses that wait at once there are few; those of one address leave room for others.
func TestThrottleAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		th := &Throttle{Now: time.Now}
		for range 20 {
			_, _ = th.Try(t.Context(), "one", false, func() bool { return false })
		}
		var busy, checked atomic.Int32
		for n := range 40 {
			go func() {
				_, err := th.Try(context.Background(), []string{"one", "two", "three"}[n%3], false, func() bool { checked.Add(1); return false })
				if errors.Is(err, ErrBusy) {
					busy.Add(1)
				}
			}()
		}
		synctest.Wait()
		if busy.Load() != 40-3*maxOwn || checked.Load() != 0 {
			t.Errorf("%d busy, %d checked", busy.Load(), checked.Load())
		}
		time.Sleep(time.Minute)
		if checked.Load() != 3*maxOwn {
			t.Errorf("%d checked", checked.Load())
		}
	})
}

func TestCode(t *testing.T) {
	var c Code
	now := time.Now()
	if c.Use("", now) {
		t.Error("no code is a code")
	}
	text := c.New(now)
	if c.Use("AAAAA-AAAAA-AAAAA-AAAAA", now) || c.Use(text, now.Add(CodeLife+time.Second)) || !c.Use(" "+strings.ToLower(text), now) || c.Use(text, now) {
		t.Error("wrong verdict")
	}
}

func TestSessions(t *testing.T) {
	var s Sessions
	now := time.Now()
	first, second := s.New(false, now), s.New(true, now)
	if s.Find(first, now) == nil || s.Find(second, now) == nil || s.Find("", now) != nil || s.Find("x", now) != nil {
		t.Error("wrong session")
	}
	if s.Find(second, now.Add(CodeLife+time.Second)) != nil || s.Find(first, now.Add(sessionLife+time.Second)) != nil {
		t.Error("they do not end")
	}
	s.End(first, true)
	if s.Find(first, now) == nil || s.Find(second, now) != nil {
		t.Error("End of others")
	}
	for n := range 2 * maxSessions {
		s.New(false, now.Add(time.Duration(n+1)*time.Second))
	}
	if len(s.all) > maxSessions || s.Find(first, now) != nil {
		t.Errorf("%d sessions", len(s.all))
	}
}

func TestSigned(t *testing.T) {
	key := []byte("key")
	signed := Sign(key, "device", "a.b")
	if Opened(key, "device", signed) != "a.b" || Opened(key, "other", signed) != "" || Opened([]byte("x"), "device", signed) != "" ||
		Opened(key, "device", signed+"x") != "" || Opened(key, "device", "") != "" || Opened(key, "device", ".") != "" {
		t.Error("wrong verdict")
	}
}
