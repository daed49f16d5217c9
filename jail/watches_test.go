package jail

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// Where no epoll watch is left the newest command ends, and the next newest at
// the next look; the reserve is free meanwhile and taken again afterwards. (To use
// up this machine's millions for real would take a gigabyte of it.)
func TestNewestCommandsEndWithoutWatches(t *testing.T) {
	j, err := New(Config{Mode: Full, Network: None, Writable: []string{t.TempDir()}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var all []*Process
	for range 3 {
		p, err := j.Start(context.Background(), Command{Args: []string{"/bin/sleep", "900"}})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	var r reserve
	none, some := func() error { return unix.ENOSPC }, func() error { return nil }
	if r.guard(some, j.newest); len(r.sets) != reserveSets {
		t.Errorf("%d sets are held", len(r.sets))
	}
	for _, want := range []*Process{all[2], all[1]} {
		if r.guard(none, j.newest); len(r.sets) != 0 {
			t.Error("the reserve is not free")
		}
		if res := want.Wait(); res.Signal != "SIGKILL" || !res.Starved {
			t.Errorf("%+v", res)
		}
	}
	if r.guard(some, j.newest); len(r.sets) != reserveSets {
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
