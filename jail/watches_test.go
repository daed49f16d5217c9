package jail

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// Where no epoll watch is left the newest command ends, and the next newest at
// the next look; the reserve is free meanwhile and taken again afterwards. (To use
// up this machine's millions for real would take a gigabyte of it.) Which jail a command
// is of does not matter: the hub has one for each of its servers.
func TestNewestCommandsEndWithoutWatches(t *testing.T) {
	var jails []*Jail
	for range 2 {
		j, err := New(Config{Mode: Full, Network: None, Writable: []string{t.TempDir()}})
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		jails = append(jails, j)
	}
	if !alone() {
		t.Error("commands of earlier tests run")
	}
	var all []*Process
	for i := range 3 {
		p, err := jails[i%2].Start(context.Background(), Command{Args: []string{"/bin/sleep", "900"}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if alone() {
		t.Error("no command runs, though one is of another jail at least")
	}
	var r reserve
	none, some := func() error { return unix.ENOSPC }, func() error { return nil }
	if r.guard(some, newest); len(r.sets) != reserveSets {
		t.Errorf("%d sets are held", len(r.sets))
	}
	for _, want := range []*Process{all[2], all[1]} {
		if r.guard(none, newest); len(r.sets) != 0 {
			t.Error("the reserve is not free")
		}
		if res := want.Wait(); res.Signal != "SIGKILL" || !res.Starved {
			t.Errorf("%+v", res)
		}
	}
	if r.guard(some, newest); len(r.sets) != reserveSets {
		t.Errorf("%d sets are held again", len(r.sets))
	}
	if all[0].killed.Err() != nil {
		t.Error("the oldest command was ended too")
	}
	r.release()
	for _, fd := range r.files {
		unix.Close(fd)
	}
}

// A real watch can be had and is given back.
func TestOneWatch(t *testing.T) {
	if err := theReserve.fill(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := oneWatch(); err != nil {
			t.Fatal(err)
		}
	}
}
