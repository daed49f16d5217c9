package store_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/sandboxd/hub/store"
)

func TestPins(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	pin := func(want []string, seen map[string]string) {
		t.Helper()
		changed, err := s.Pin("x", seen)
		if err != nil || !slices.Equal(changed, want) || !slices.Equal(s.Pending("x"), want) {
			t.Errorf("changed %v, pending %v, %v; want %v", changed, s.Pending("x"), err, want)
		}
	}
	if s.Pinned("x") {
		t.Error("pinned before anything was seen")
	}
	pin(nil, map[string]string{"a": "1", "b": "1"})
	pin([]string{"a"}, map[string]string{"a": "2", "c": "1"})
	if tools, err := store.Accept(dir, "x"); err != nil || !slices.Equal(tools, []string{"a"}) {
		t.Errorf("accepted %v %v", tools, err)
	}
	pin(nil, map[string]string{"a": "2"})
	pin([]string{"a"}, map[string]string{"a": "1"}) // the way back is a change, too
	pin(nil, map[string]string{"a": "2"})           // and taking it back ends it
	if err := os.WriteFile(filepath.Join(dir, "pins", "x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pin("x", map[string]string{"a": "3"}); err == nil || !s.Pinned("x") {
		t.Error("a damaged file accepts everything")
	}
}

// A server that invents a name with each look, or long ones, fills no disk.
func TestPinsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1000)
	if changed, err := s.Pin("x", map[string]string{long: "1", "a": "1"}); err != nil || !slices.Equal(changed, []string{long}) || len(s.Pending("x")) != 0 {
		t.Errorf("changed %d, pending %d, %v", len(changed), len(s.Pending("x")), err)
	}
	for look := range 4 { // 20,000 are accepted, 20,000 wait
		seen := map[string]string{}
		for n := range 15000 {
			seen[fmt.Sprintf("%d.%d", look, n)] = "1"
		}
		if _, err := s.Pin("x", seen); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Pending("x")); n != 20000 {
		t.Errorf("%d wait", n)
	}
	if changed, err := s.Pin("x", map[string]string{"a": "1"}); err != nil || len(changed) != 0 {
		t.Errorf("what was accepted before: %v %v", changed, err)
	}
}

func TestSnapshotBelongsToItsEntry(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	snap := s.Load("x", "hash")
	snap.Init["2025-06-18"] = []byte(`{"n":12345678901234567890,"s":"<&>"}`)
	if err := s.Save("x", snap); err != nil {
		t.Fatal(err)
	}
	if got := s.Load("x", "hash"); string(got.Init["2025-06-18"]) != `{"n":12345678901234567890,"s":"<&>"}` {
		t.Errorf("came back as %s", got.Init)
	}
	if got := s.Load("x", "another"); len(got.Init) != 0 {
		t.Errorf("another entry got %s", got.Init)
	}
}

// The order of keys and white space is no change; a number's last digit is.
func TestFingerprint(t *testing.T) {
	one := store.Fingerprint([]byte(`{"name":"a","n":12345678901234567890}`))
	if one != store.Fingerprint([]byte("{ \"n\": 12345678901234567890,\n \"name\": \"a\"}")) {
		t.Error("order or space changed it")
	}
	if one == store.Fingerprint([]byte(`{"name":"a","n":12345678901234567891}`)) {
		t.Error("a digit did not change it")
	}
}
