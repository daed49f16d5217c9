package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
)

// creates counts the create requests with the text in them.
func (b *bench) creates(text string) (n int) {
	for _, r := range b.requests() {
		if strings.Contains(r, "/containers/create") && strings.Contains(r, text) {
			n++
		}
	}
	return n
}

// polls waits until the watcher has surely looked twice.
func (b *bench) polls() { time.Sleep(20 * b.s.poll) }

// waiting is a server that runs until it is stopped.
func waiting(c *fakeContainer) { <-c.gone }

func TestRotation(t *testing.T) {
	b := start(t, goodConfig)
	b.runs(waiting)
	s := b.run("s", keyed)
	b.run("plain", nil)
	now := time.Now().Add(time.Hour)
	os.Chtimes(filepath.Join(b.s.secretsDir, "set.env"), now, now)
	b.polls()
	b.write("set.env", "# only a comment\n\n  SECRET=s3cret-value\n")
	b.polls()
	b.write("set.env", "SECRET=new-value")
	if _, _, end := s.frames(); end.Reason != wire.EndSecrets {
		t.Fatalf("%+v", end)
	}
	b.run("s", keyed)
	if b.creates("SECRET=s3cret-value") != 1 || b.creates("SECRET=new-value") != 1 {
		t.Errorf("creates: %s", strings.Join(b.requests(), "\n"))
	}
	if states := b.greet().must(`{"verb":"status"}`).States; !states["plain"].Attached {
		t.Error("the other server was restarted too")
	}
}

// TestBrokenRotation: ignored and said, for each way to break a file; the
// old values stay, also for a restart in between.
func TestBrokenRotation(t *testing.T) {
	b := start(t, goodConfig)
	b.runs(waiting)
	s := b.run("s", keyed)
	path := filepath.Join(b.s.secretsDir, "set.env")
	for i, change := range []func(){
		func() { b.write("set.env", "SECRET=half\nNEX") },
		func() { b.write("set.env", "KEY=collides-with-env") },
		func() {
			os.WriteFile(path+".new", []byte("SECRET=other"), 0o600)
			os.Chmod(path+".new", 0o644)
			os.Rename(path+".new", path)
		},
		func() { os.Remove(path); os.Symlink("/etc/hostname", path) },
	} {
		said := strings.Count(b.log.String(), "ignoring broken secrets")
		change()
		b.until(fmt.Sprintf("change %d is said", i), func() bool {
			return strings.Count(b.log.String(), "ignoring broken secrets") > said
		})
		b.polls()
		if states := b.greet().must(`{"verb":"status"}`).States; !states["s"].Attached {
			t.Fatalf("change %d ended the server", i)
		}
	}
	b.greet().must(`{"verb":"stop","server":"s"}`)
	s.frames()
	s = b.run("s", keyed)
	if b.creates("SECRET=s3cret-value") != 2 {
		t.Error("the old values did not stay")
	}
	os.Remove(path) // taken away: nothing new starts with it, what runs goes on
	b.polls()
	if states := b.greet().must(`{"verb":"status"}`).States; !states["s"].Attached {
		t.Error("a deleted file ended the server")
	}
	b.greet().must(`{"verb":"stop","server":"s"}`)
	s.frames()
	if reply := b.greet().ask(b.ensureLine("s", keyed)); reply.OK || !strings.Contains(reply.Error, "no such file") {
		t.Errorf("%+v", reply)
	}
	b.write("set.env", "SECRET=back")
	b.run("s", keyed)
}

// TestManyEdits: one restart, once it is quiet.
func TestManyEdits(t *testing.T) {
	for n := range 6 {
		if editedMany(t, 100*time.Millisecond<<n) {
			return
		}
	}
	t.Error("this machine never came to write twice between two looks")
}

// editedMany is false if the test itself was held up so long between two edits
// that it was quiet: that proves nothing, and is tried with longer pauses.
func editedMany(t *testing.T, poll time.Duration) bool {
	b := prepare(t, goodConfig)
	b.s.poll = poll
	b.start()
	b.runs(waiting)
	b.run("s", keyed)
	s := b.greet()
	before := time.Now()
	stop := before.Add(10 * b.s.poll)
	for i := 0; before.Before(stop); i++ {
		begin := time.Now()
		b.write("set.env", fmt.Sprintf("SECRET=value-%d", i))
		if i%7 == 0 {
			b.write("set.env", "half writ")
		}
		if time.Since(before) >= b.s.poll {
			return false
		}
		before = begin
		time.Sleep(time.Millisecond)
	}
	b.write("set.env", "SECRET=last")
	if time.Since(before) >= b.s.poll {
		return false
	}
	b.until("the server was ended", func() bool { return len(s.must(`{"verb":"status"}`).States) == 0 })
	if n := strings.Count(b.log.String(), "secrets changed, ending"); n != 1 {
		t.Errorf("%d restarts", n)
	}
	b.run("s", keyed)
	if b.creates("SECRET=last") != 1 {
		t.Error("not the last value")
	}
	return true
}

// TestSwappedDirectory is how Kubernetes and others publish: the folder is a
// symlink that is replaced.
func TestSwappedDirectory(t *testing.T) {
	b := prepare(t, goodConfig)
	dir := t.TempDir()
	for name, value := range map[string]string{"one": "SECRET=first", "two": "SECRET=second"} {
		os.Mkdir(filepath.Join(dir, name), 0o700)
		os.WriteFile(filepath.Join(dir, name, "set.env"), []byte(value), 0o600)
	}
	os.Symlink("one", filepath.Join(dir, "..data"))
	b.s.secretsDir = filepath.Join(dir, "..data")
	b.start()
	b.runs(waiting)
	s := b.run("s", keyed)
	os.Symlink("two", filepath.Join(dir, "next"))
	os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "..data"))
	if _, _, end := s.frames(); end.Reason != wire.EndSecrets {
		t.Errorf("%+v", end)
	}
	b.run("s", keyed)
	if b.creates("SECRET=first") != 1 || b.creates("SECRET=second") != 1 {
		t.Errorf("%s", strings.Join(b.requests(), "\n"))
	}
}

func TestWatchOff(t *testing.T) {
	b := prepare(t, goodConfig)
	b.s.secretsWatch = false
	b.start()
	b.runs(waiting)
	s := b.run("s", keyed)
	b.write("set.env", "SECRET=new-value")
	b.polls()
	if states := b.greet().must(`{"verb":"status"}`).States; !states["s"].Attached {
		t.Error("the server was ended")
	}
	b.greet().must(`{"verb":"stop","server":"s"}`)
	s.frames()
	b.run("s", keyed)
	if b.creates("SECRET=new-value") != 1 {
		t.Error("the next container has not the new value")
	}
}

func TestConfigReload(t *testing.T) {
	b := start(t, goodConfig)
	b.runs(waiting)
	s, plain := b.run("s", keyed), b.run("plain", nil)
	b.write("mcp.json", goodConfig[:len(goodConfig)/2]) // half written
	b.until("it is said", func() bool { return strings.Contains(b.log.String(), "ignoring broken configuration") })
	if len(b.names()) != 2 {
		t.Fatal("a broken file ended a server")
	}
	b.write("mcp.json", strings.Replace(goodConfig, `"plain": {`, `"plain": {"memory": "64m", `, 1))
	if _, _, end := plain.frames(); end.Reason != wire.EndConfig {
		t.Errorf("%+v", end)
	}
	b.run("plain", nil)
	if b.creates(`"Memory":67108864`) != 1 {
		t.Error("the new limit is not used")
	}
	b.greet().must(`{"verb":"stop","server":"plain"}`)
	b.greet().must(b.ensureLine("plain", nil)) // and never attached
	b.write("mcp.json", strings.Replace(goodConfig, `"secretsFrom": "set"`, `"secretsFrom": "missing"`, 1))
	b.until("the missing set is said", func() bool { return strings.Contains(b.log.String(), "missing.env") })
	b.write("mcp.json", `{"mcpServers": {}}`)
	if _, _, end := s.frames(); end.Reason != wire.EndConfig {
		t.Errorf("%+v", end)
	}
	b.until("nothing is left", func() bool { return len(b.names()) == 0 })
}

// TestEditWhileAClaimIsWaitedFor: a hub that asks for a server again and again while
// another connection holds it gets no container by the entry of before, once that has ended
// for an edit.
func TestEditWhileAClaimIsWaitedFor(t *testing.T) {
	b := start(t, goodConfig)
	b.runs(waiting)
	first, second := b.run("plain", nil), b.greet()
	before := b.ensureLine("plain", nil)
	reply, edited := make(chan wire.Reply), false
	ask := func() { go func() { reply <- second.ask(before) }() }
	for ask(); ; ask() {
		if !edited {
			time.Sleep(100 * time.Millisecond) // until it waits for the claim, or a little before
			b.write("mcp.json", strings.Replace(goodConfig, `"plain": {`, `"plain": {"memory": "64m", `, 1))
			edited = true
		}
		if got := <-reply; got.Code == wire.CodeStale {
			break
		} else if got.Code != wire.CodeBusy { // it waited for long, on a busy machine
			t.Fatalf("by the entry of before: %+v", got)
		}
	}
	if _, _, end := first.frames(); end.Reason != wire.EndConfig {
		t.Errorf("%+v", end)
	}
	if n := b.creates("mcp-sandbox-plain"); n != 1 {
		t.Errorf("%d containers by the entry of before", n)
	}
	b.run("plain", nil) // the twin, by the new one
	if b.creates(`"Memory":67108864`) != 1 {
		t.Error("the new limit is not used")
	}
}

// TestStartNeedsValidSecrets: better no start than a server without its key.
func TestStartNeedsValidSecrets(t *testing.T) {
	for text, why := range map[string]string{"KEY=x": "also in the env", "nonsense": "not NAME=value"} {
		b := prepare(t, goodConfig)
		b.write("set.env", text)
		if _, err := loadPolicy(b.s); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
		b.write("set.env", "SECRET=good")
		if _, err := loadPolicy(b.s); err != nil {
			t.Error(err)
		}
	}
}
