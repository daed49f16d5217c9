package hub

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// A rotated secret restarts its server and no other; the clients of both stay
// connected and need do nothing.
func TestRotationThroughTheHub(t *testing.T) {
	b := startBoxes(t, "")
	one, two := b.dial("one", rig.Streamable), b.dial("two", rig.Streamable)
	for want, session := range map[string]func() (string, error){
		"one": func() (string, error) { return b.key(one) }, "two": func() (string, error) { return b.key(two) }} {
		if got, err := session(); err != nil || got != want {
			t.Fatalf("%s: %q, %v", want, got, err)
		}
	}
	before, other := b.only("one"), b.only("two")

	b.secret("one", "# a comment is no change\n KEY=one")
	b.secret("two", `KEY="two"`)
	b.secret("one", "KEY=renewed-value")
	rig.Until(t, "the new secret, in the same session", func() bool {
		got, err := b.key(two)
		if err != nil || got != "two" {
			t.Fatalf("the server that nobody touched: %q, %v", got, err)
		}
		got, err = b.key(one)
		if err != nil && !strings.Contains(err.Error(), "secrets changed") {
			t.Fatalf("a call during the restart: %v", err)
		}
		return err == nil && got == "renewed-value"
	}, b.Process, b.proxy)
	if now := b.only("one"); now == before {
		t.Error("the same container holds the new secret")
	}
	if now := b.only("two"); now != other {
		t.Errorf("the other server was restarted: %s, then %s", other, now)
	}
	b.nowhere("renewed-value")
}

// nowhere: a value is in no log and in nothing that the hub keeps.
func (b *boxes) nowhere(value string) {
	b.t.Helper()
	if strings.Contains(b.Log.String()+b.proxy.Log.String(), value) {
		b.t.Error("a secret is in a log")
	}
	_ = filepath.WalkDir(b.state(), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if data, err := os.ReadFile(path); err != nil || strings.Contains(string(data), value) {
				b.t.Errorf("%s holds a secret, or cannot be read: %v", path, err)
			}
		}
		return nil
	})
}

// Secrets that change a hundred times a second, some of them broken, while
// clients call: an answer or an error each time, nothing left, and the last
// value in the end.
func TestSoakSecretsSwapped(t *testing.T) {
	b := startBoxes(t, "")
	one, two := b.dial("one", rig.Streamable), b.dial("two", rig.Streamable)
	b.says("one", "one")
	b.says("two", "two")
	other := b.only("two")
	before := []int{descriptors(b.Process), descriptors(b.proxy)}

	length := 6 * time.Second
	if os.Getenv("SALLYPORT_SOAK") != "" {
		length = 2 * time.Minute
	}
	stop := time.Now().Add(length)
	var wait sync.WaitGroup
	wait.Go(func() {
		file := filepath.Join(b.dir, "secrets", "one.env")
		for n := 0; time.Now().Before(stop); n++ {
			switch n % 5 {
			case 4: // half of it, in place
				_ = os.WriteFile(file, []byte("KE"), 0o640)
			default: // few values, so that two readings are often equal
				b.secret("one", fmt.Sprint("KEY=swapped", n/150))
			}
			time.Sleep(10 * time.Millisecond)
		}
		b.secret("one", "KEY=last")
	})
	answers, seen, errors := 0, map[string]bool{}, map[string]int{}
	for time.Now().Before(stop) {
		if got, err := b.key(two); err != nil || got != "two" {
			t.Fatalf("the server that nobody touched: %q, %v", got, err)
		}
		if got, err := b.key(one); err == nil {
			answers++
			seen[got] = true
		} else {
			errors[err.Error()]++
		}
	}
	wait.Wait()
	b.says("one", "last")
	if got, err := b.key(one); err != nil || got != "last" {
		t.Errorf("the client that was there all along: %q, %v", got, err)
	}
	t.Logf("%d answers, %d different values, errors %v", answers, len(seen), errors)
	b.only("one")
	if now := b.only("two"); now != other {
		t.Error("the other server was restarted")
	}
	b.settled(before)
}

// settled: descriptors are what they were, and no goroutine is left over. It
// ends hub and proxy.
func (b *boxes) settled(before []int) {
	b.t.Helper()
	rig.Until(b.t, "the descriptors are closed", func() bool {
		return descriptors(b.Process) <= before[0]+2 && descriptors(b.proxy) <= before[1]+2
	}, b.Process, b.proxy)
	for name, p := range map[string]*rig.Process{"hub": b.Process, "proxy": b.proxy} {
		n := goroutines(b.t, p)
		b.t.Logf("%s: %d goroutines", name, n)
		if n < 10 || n > 50 { // two servers with a few clients: some thirty
			b.t.Errorf("the %s has %d goroutines", name, n)
		}
	}
	rig.Until(b.t, "no container is left", func() bool { return len(b.containers("")) == 0 })
}

// Two hubs, each with its own proxy, on one engine, with servers of the same
// names: whatever the one does, the other's containers stay.
func TestTwoHubsOnOneEngine(t *testing.T) {
	a := startBoxes(t, "")
	one := a.dial("one", rig.Streamable)
	if got, err := a.key(one); err != nil || got != "one" {
		t.Fatalf("%q, %v", got, err)
	}
	mine := a.containers("")
	still := func(what string) {
		t.Helper()
		got, err := a.key(one)
		if err != nil || got != "one" || !slices.Equal(a.containers(""), mine) {
			t.Errorf("%s: %q, %v, containers %q, then %q", what, got, err, mine, a.containers(""))
		}
	}
	b := startBoxes(t, "")
	still("another hub started")
	b.says("one", "one")
	b.says("two", "two")
	still("it runs servers of the same names")
	theirs := b.containers("one")
	_ = b.proxy.Cmd.Process.Kill()
	<-b.proxy.Done
	b.startProxy() // reaps
	rig.Until(t, "the other's leftovers are gone", func() bool { return !slices.Contains(b.containers("one"), theirs[0]) })
	b.says("one", "one")
	still("its proxy was killed and came back")
	theirs = b.containers("")
	a.proxy.Stop()
	rig.Until(t, "the first hub's containers are gone", func() bool { return len(a.containers("")) == 0 })
	b.says("one", "one")
	if !slices.Equal(b.containers(""), theirs) {
		t.Errorf("the first proxy's end took the other's containers: %q, then %q", theirs, b.containers(""))
	}
	b.Process.Stop()
	rig.Until(t, "the second hub's containers are gone", func() bool { return len(b.containers("")) == 0 })
}

// Awake and asleep, over and over: 20 times, 200 in make soak. Nothing stays.
func TestSoakWakeAndSleep(t *testing.T) {
	b := startBoxes(t, "")
	b.says("one", "one")
	b.sleep("one")
	before := []int{descriptors(b.Process), descriptors(b.proxy)}
	cycles := 20
	if os.Getenv("SALLYPORT_SOAK") != "" {
		cycles = 200
	}
	session, wakes := rig.Connect(t, b.url+"/hub", b.token, rig.Streamable), []time.Duration{}
	for range cycles {
		begin := time.Now()
		for _, tool := range []string{"wake_server", "sleep_server"} {
			if result := rig.TryCall(t, session, tool, rig.Args{"server": "one"}); result.IsError {
				t.Fatalf("%s: %s", tool, rig.Text(result))
			}
			if tool == "wake_server" {
				wakes = append(wakes, time.Since(begin))
			}
		}
	}
	slices.Sort(wakes)
	t.Logf("%d cycles, wake p50 %v, p99 %v", cycles, wakes[cycles/2].Round(time.Millisecond), wakes[cycles*99/100].Round(time.Millisecond))
	rig.Until(t, "no container is left", func() bool { return len(b.containers("")) == 0 })
	b.settled(before)
}
