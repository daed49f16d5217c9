package command_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/sandboxd/command"
)

func contextOf(t *testing.T) (context.Context, func()) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		raw, _ := os.ReadFile(path)
		if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			return pid
		}
	}
	t.Fatal("the command does not begin")
	return 0
}

func startFor(t *testing.T, r *command.Runner, owner, line string, most time.Duration) *command.Command {
	t.Helper()
	c, err := r.StartFor(owner, line, "", most)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A handle is one owner's. Another is told neither that it exists nor what it
// runs; the owner who lost it is told both.
func TestHandleIsItsOwners(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	c := startFor(t, r, "alice", "sleep 1000", long)
	if found, err := r.Find(c.Handle, "alice"); err != nil || found != c {
		t.Errorf("the owner: %v, %v", found, err)
	}
	_, err := r.Find(c.Handle, "mallory")
	if err == nil || strings.Contains(err.Error(), c.Handle) || strings.Contains(err.Error(), "sleep") {
		t.Errorf("another: %v", err)
	}
	if _, err := r.Find("lost", "alice"); err == nil || !strings.Contains(err.Error(), c.Handle+" (running): \"sleep 1000\"") {
		t.Errorf("a lost handle: %v", err)
	}
	c.Stop(false)
	ended(t, c)
	if _, err := r.Find("lost", "alice"); err == nil || !strings.Contains(err.Error(), c.Handle+" (ended)") {
		t.Errorf("after its end: %v", err)
	}
	if r.Forget(c); len(c.Handle) < 20 {
		t.Errorf("a handle that can be guessed: %q", c.Handle)
	}
	if _, err := r.Find(c.Handle, "alice"); err == nil || !strings.Contains(err.Error(), "none of yours") {
		t.Errorf("once forgotten: %v", err)
	}
}

// The lifetime ends a command, and all it started; its output can be read on.
func TestEndOfLifetime(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	c := startFor(t, r, "alice", "echo begun; sleep 1000", 5*time.Second)
	if _, over := c.Result(); over {
		t.Error("it has a result while it runs")
	}
	if res, stdout, _ := ended(t, c); !res.TimedOut || stdout != "begun\n" {
		t.Errorf("%+v %q", res, stdout)
	}
	if found, err := r.Find(c.Handle, "alice"); err != nil || found != c {
		t.Errorf("after its end: %v", err)
	}
}

// A cursor is an offset in each stream. Pages follow each other without a gap,
// and what is no longer kept is counted.
func TestPages(t *testing.T) {
	r, _, _ := newRunner(t, 1024)
	c := startFor(t, r, "alice", "seq 1 2000", long)
	ended(t, c)
	var text string
	var at, skipped int64
	for pages := 0; ; pages++ {
		page, next, gone := c.Stdout.Page(at, 100, true)
		text, skipped = text+page, skipped+gone
		if next < at+int64(len(page)) || pages > 100 {
			t.Fatalf("page %d: from %d to %d, %q", pages, at, next, page)
		}
		if at = next; at == c.Stdout.Size() {
			break
		}
	}
	const size = 8893 // of what seq writes
	if c.Stdout.Size() != size || int64(len(text))+skipped != size || skipped != size-1024 {
		t.Errorf("%d bytes written, %d shown, %d skipped", c.Stdout.Size(), len(text), skipped)
	}
	if !strings.HasPrefix(text, "1\n2\n3\n") || !strings.HasSuffix(text, "\n1999\n2000\n") {
		t.Errorf("%.20q … %q", text, text[len(text)-20:])
	}
}

// One owner runs 8, all together 16, and of 64 that are kept the oldest that
// has ended makes room.
func TestBoundsOfBackgroundCommands(t *testing.T) {
	r, _, _ := newRunner(t, 1024)
	first := startFor(t, r, "carol", "true", long)
	ended(t, first)
	for _, owner := range []string{"alice", "bob"} {
		for range 8 {
			startFor(t, r, owner, "sleep 1000", long)
		}
		_, err := r.StartFor(owner, "true", "", long)
		if err == nil || !strings.Contains(err.Error(), "8 commands of yours") || strings.Count(err.Error(), "sleep 1000") != 8 {
			t.Errorf("%s: %v", owner, err)
		}
	}
	if _, err := r.StartFor("carol", "true", "", long); err == nil || !strings.Contains(err.Error(), "too many") || strings.Contains(err.Error(), "sleep") {
		t.Errorf("carol beside 16: %v", err)
	}
	second := stopOne(t, r, "alice")
	for i := range 47 {
		ended(t, startFor(t, r, "carol", fmt.Sprint("true ", i), long))
	}
	if _, err := r.Find(first.Handle, "carol"); err != nil {
		t.Errorf("forgotten though there was room: %v", err)
	}
	ended(t, startFor(t, r, "carol", "true", long))
	if _, err := r.Find(first.Handle, "carol"); err == nil {
		t.Error("65 are kept")
	}
	if _, err := r.Find(second, "alice"); err != nil {
		t.Errorf("not the oldest made room: %v", err)
	}
}

// stopOne ends one of the commands of owner and returns its handle.
func stopOne(t *testing.T, r *command.Runner, owner string) string {
	t.Helper()
	_, err := r.Find("", owner)
	_, handle, _ := strings.Cut(fmt.Sprint(err), "\n")
	handle, _, _ = strings.Cut(handle, " ")
	c, err := r.Find(handle, owner)
	if err != nil {
		t.Fatal(err)
	}
	c.Stop(false)
	ended(t, c)
	return handle
}

// However many commands one principal runs in the background, the output of another's
// stays. The twin: of its own the oldest goes.
func TestHandlesOfOthersStay(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	start := func(owner string) string {
		t.Helper()
		c, err := r.StartFor(owner, "echo done", "", long)
		if err != nil {
			t.Fatal(err)
		}
		ended(t, c)
		return c.Handle
	}
	theirs, own := start("alice"), start("mallory")
	for range 70 {
		start("mallory")
	}
	if _, err := r.Find(theirs, "alice"); err != nil {
		t.Errorf("alice's: %.100v", err)
	}
	if _, err := r.Find(own, "mallory"); err == nil {
		t.Error("the twin: all of mallory's stay")
	}
}
