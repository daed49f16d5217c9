package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func open(t *testing.T, dir string) (*Store, []string, error) {
	t.Helper()
	var said []string
	s, err := Open(filepath.Join(dir, "state"), filepath.Join(dir, "revoked", "revoked"), func(line string) { said = append(said, line) })
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, said, err
}

func revoke(t *testing.T, s *Store, id string) {
	t.Helper()
	if err := s.Update(func(st *State) error { st.Revoke(id, time.Now()); return nil }); err != nil {
		t.Fatal(err)
	}
}

// A corrupt state is set aside and said; keys are then new, and what was revoked stays so.
func TestCorrupt(t *testing.T) {
	for _, raw := range []string{"", "{", "null", "{}", `{"Version":"x"}`, "\x00\x00\x00\x00"} {
		dir := t.TempDir()
		s, _, err := open(t, dir)
		if err != nil {
			t.Fatal(err)
		}
		revoke(t, s, "abc")
		var secret string
		s.View(func(st *State) { secret = string(st.Secret) })
		s.Close()
		file := filepath.Join(dir, "state", "state.json")
		if err := os.WriteFile(file, []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		s, said, err := open(t, dir)
		if err != nil || len(said) != 1 || !strings.Contains(said[0], "state.json.corrupt-") {
			t.Fatalf("%q: %v %q", raw, err, said)
		}
		if kept, _ := filepath.Glob(file + ".corrupt-*"); len(kept) != 1 {
			t.Errorf("%q: it was not kept", raw)
		}
		s.View(func(st *State) {
			if string(st.Secret) == secret || st.Revoked["abc"].IsZero() {
				t.Errorf("%q: secret kept, or revocation lost", raw)
			}
		})
		s.Close()
		if _, said, err := open(t, dir); err != nil || len(said) > 0 {
			t.Errorf("%q: the next start: %v %q", raw, err, said)
		}
	}
}

// A newer release's file stops the start and is left as it is.
func TestNewer(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state", "state.json")
	raw := `{"Version":2,"Other":true}`
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(raw), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, dir); err == nil || !strings.Contains(err.Error(), "newer release") {
		t.Error(err)
	}
	if got, _ := os.ReadFile(file); string(got) != raw {
		t.Errorf("it was changed: %s", got)
	}
}

// One process holds the folder, and nobody else may look into it.
func TestLockedAndPrivate(t *testing.T) {
	dir := t.TempDir()
	s, _, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, dir); err == nil || !strings.Contains(err.Error(), "holds this folder") {
		t.Errorf("a second process: %v", err)
	}
	s.Close()
	if _, _, err := open(t, dir); err != nil {
		t.Errorf("the twin: %v", err)
	}
	other := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(other, "state"), 0o700), os.Chmod(filepath.Join(other, "state"), 0o750)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, other); err == nil || !strings.Contains(err.Error(), "chmod 0700") {
		t.Errorf("an open folder: %v", err)
	}
}

// What Update returned from is on the disk, also when many share a write.
func TestUpdateIsKept(t *testing.T) {
	dir := t.TempDir()
	s, _, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := range 50 {
		all.Go(func() {
			id := "g" + string(rune('A'+n))
			revoke(t, s, id)
			raw, _ := os.ReadFile(filepath.Join(dir, "state", "state.json"))
			list, _ := os.ReadFile(filepath.Join(dir, "revoked", "revoked"))
			if n < 26 && (!strings.Contains(string(raw), `"`+id+`"`) || !strings.Contains(string(list), id+"\n")) {
				t.Errorf("%s is not on the disk", id)
			}
		})
	}
	all.Wait()
	refused := errors.New("refused")
	before, _ := os.Stat(filepath.Join(dir, "state", "state.json"))
	if err := s.Update(func(*State) error { return refused }); !errors.Is(err, refused) {
		t.Error(err)
	}
	after, _ := os.Stat(filepath.Join(dir, "state", "state.json"))
	if !os.SameFile(before, after) {
		t.Error("a refused change was written")
	}
}

// What cannot be written is an error, and is written with the next change.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	s, _, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(dir, "state", "state.json.new")
	if err := os.Mkdir(block, 0o700); err != nil { // stands for a full disk: nothing can be written there
		t.Fatal(err)
	}
	if err := s.Update(func(st *State) error { st.Revoke("one", time.Now()); return nil }); err == nil {
		t.Error("no error")
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	revoke(t, s, "two")
	if list, _ := os.ReadFile(filepath.Join(dir, "revoked", "revoked")); string(list) != "one\ntwo\n" {
		t.Errorf("%q", list)
	}
}

// Only ids come in from the list.
func TestListIsNotTrusted(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "revoked"), 0o700),
		os.WriteFile(filepath.Join(dir, "revoked", "revoked"), []byte("good\n../bad\n<x>\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s, _, err := open(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	s.View(func(st *State) {
		if len(st.Revoked) != 1 || st.Revoked["good"].IsZero() {
			t.Errorf("%v", st.Revoked)
		}
	})
}
