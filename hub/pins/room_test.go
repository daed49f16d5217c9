package pins_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/hub/pins"
)

// long is an answer of some MiB.
func long(mib int) json.RawMessage {
	return json.RawMessage(`"` + strings.Repeat("x", mib<<20-2) + `"`)
}

// What hostile servers say of themselves takes bounded room, in memory and on
// disk: one answer, one server, and all of them together.
func TestSnapshotsShareRoom(t *testing.T) {
	dir := t.TempDir()
	s, err := pins.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	save := func(name string, answers ...json.RawMessage) error {
		snap := pins.Snapshot{Hash: "h", ToolsFor: map[string]json.RawMessage{}}
		for i, raw := range answers {
			snap.ToolsFor[fmt.Sprint(i)] = raw
		}
		return s.Save(name, snap)
	}
	if err := save("long", long(9)); !errors.Is(err, pins.ErrRoom) {
		t.Errorf("an answer of 9 MiB: %v", err)
	}
	if err := save("many", long(8), long(8), long(1)); !errors.Is(err, pins.ErrRoom) {
		t.Errorf("three answers of 17 MiB: %v", err)
	}
	for i := range 4 {
		if err := save(fmt.Sprint("full", i), long(8), long(8)); err != nil {
			t.Errorf("twin: %v", err)
		}
	}
	if err := save("fifth", long(1)); !errors.Is(err, pins.ErrRoom) {
		t.Errorf("beside 64 MiB of others: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "snapshots", "fifth.json")); err == nil {
		t.Error("what was refused is on disk")
	}
	if err := save("full0", long(7), long(8)); err != nil { // in place of its own
		t.Errorf("twin: %v", err)
	}
	if err := save("fifth", long(1)); err != nil {
		t.Errorf("twin, after room was made: %v", err)
	}
	s.Release("full1", "another")
	if err := save("sixth", long(1)); !errors.Is(err, pins.ErrRoom) {
		t.Errorf("the room of an edited entry was given away: %v", err)
	}
	s.Release("full1", "h")
	if err := save("sixth", long(1)); err != nil {
		t.Errorf("twin, after another entry went: %v", err)
	}

	if again, err := pins.Open(dir); err != nil || again.Load("sixth", "h").ToolsFor["0"] == nil {
		t.Errorf("twin: the snapshot is lost after a restart: %v", err)
	}
	huge := []byte(`{"hash":"h","tools":` + string(long(40)) + `}`)
	if err := os.WriteFile(filepath.Join(dir, "snapshots", "huge.json"), huge, 0o600); err != nil {
		t.Fatal(err)
	}
	if s.Load("huge", "h").Tools != nil {
		t.Error("a snapshot of 40 MiB was read")
	}
}

// Before each call the hub asks what is withheld. That reads nothing where
// nothing changed, and sees at once what another process accepted.
func TestPendingIsReadOnce(t *testing.T) {
	dir := t.TempDir()
	s, err := pins.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	first, second := defs{}, defs{}
	for i := range 2000 {
		first[fmt.Sprint("tool", i)], second[fmt.Sprint("tool", i)] = []byte("1"), []byte("2")
	}
	for _, seen := range []defs{first, second} {
		if _, err := s.Pin("x", seen, true); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Pending("x")); n != 2000 {
		t.Fatalf("%d are withheld", n)
	}
	if n := testing.AllocsPerRun(10, func() { s.Pending("x") }); n > 100 {
		t.Errorf("asking again takes %v allocations", n)
	}
	other, err := pins.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1, func() { other, _ = pins.Open(dir); other.Pending("x") }); n < 1000 {
		t.Errorf("twin: reading the file takes %v allocations", n)
	}
	_, sum, err := pins.Accept(dir, "x", "")
	if err == nil {
		_, _, err = pins.Accept(dir, "x", sum)
	}
	if list := s.Pending("x"); err != nil || len(list) != 0 {
		t.Errorf("after another process accepted, %d are withheld: %v", len(list), err)
	}
	if changed, err := s.Pin("x", first, true); err != nil || !slices.Equal(changed, s.Pending("x")) {
		t.Errorf("%d changed, %d are withheld: %v", len(changed), len(s.Pending("x")), err)
	}
}

// A server's pins are locked for themselves: `sallyport accept` of one, or one
// with much to write, holds up no other.
func TestPinsOfOthersAreNotHeldUp(t *testing.T) {
	dir := t.TempDir()
	s, err := pins.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	release := pins.Hold(t, dir, "slow")
	if _, err := s.Pin("quick", defs{"a": []byte("1")}, true); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := s.Pin("slow", defs{"a": []byte("1")}, true)
		done <- err
	}()
	select {
	case err := <-done:
		t.Errorf("twin: the held one was written: %v", err)
	default:
	}
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
