package pins_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/hub/pins"
)

type defs = map[string]json.RawMessage

// What changed is withheld until the owner accepts exactly what was shown.
func TestPins(t *testing.T) {
	dir := t.TempDir()
	s, err := pins.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	pin := func(want []string, seen defs) {
		t.Helper()
		changed, err := s.Pin("x", seen, true)
		if err != nil || !slices.Equal(changed, want) || !slices.Equal(s.Pending("x"), want) {
			t.Errorf("changed %v, pending %v, %v; want %v", changed, s.Pending("x"), err, want)
		}
	}
	if s.Pinned("x") {
		t.Error("pinned before anything was seen")
	}
	pin(nil, defs{"a": []byte("1"), "b": []byte("1")})
	pin([]string{"a"}, defs{"a": []byte("2"), "c": []byte("1")})
	accept := func(sum, want string) (now string) {
		t.Helper()
		list, now, err := pins.Accept(dir, "x", sum)
		if got := fmt.Sprintf("%s", list); err != nil || got != want {
			t.Errorf("withheld are %s, %v; want %s", got, err, want)
		}
		return now
	}
	sum := accept("", "[{a 1 2}]")
	pin([]string{"a"}, defs{"a": []byte("3")})
	accept(sum, "[{a 1 3}]")
	pin([]string{"a"}, defs{"a": []byte("3")}) // which nobody has seen
	pin([]string{"a"}, defs{"a": []byte("2")})
	accept(sum, "[{a 1 2}]")
	accept(sum, "[]")
	pin(nil, defs{"a": []byte("2")})
	pin([]string{"a"}, defs{"a": []byte("1")}) // the way back is a change, too
	pin(nil, defs{"a": []byte("2")})           // and taking it back ends it
	if err := os.WriteFile(filepath.Join(dir, "pins", "x.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Pin("x", defs{"a": []byte("3")}, true); err == nil || !s.Pinned("x") {
		t.Error("a damaged file accepts everything")
	}
}

// A server that invents a name with each look, or long ones, fills no disk.
func TestPinsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s, err := pins.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 1000)
	if changed, err := s.Pin("x", defs{long: []byte("1"), "a": []byte("1")}, true); err != nil || !slices.Equal(changed, []string{long}) || len(s.Pending("x")) != 0 {
		t.Errorf("changed %d, pending %d, %v", len(changed), len(s.Pending("x")), err)
	}
	for look := range 4 { // 20,000 are accepted, 20,000 wait
		seen := defs{}
		for n := range 15000 {
			seen[fmt.Sprintf("%d.%d", look, n)] = []byte("1")
		}
		if _, err := s.Pin("x", seen, true); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(s.Pending("x")); n != 20000 {
		t.Errorf("%d wait", n)
	}
	if changed, err := s.Pin("x", defs{"a": []byte("1")}, true); err != nil || len(changed) != 0 {
		t.Errorf("what was accepted before: %v %v", changed, err)
	}
}

func TestSnapshotBelongsToItsEntry(t *testing.T) {
	dir := t.TempDir()
	s, err := pins.Open(dir)
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
	one := pins.Fingerprint([]byte(`{"name":"a","n":12345678901234567890}`))
	if one != pins.Fingerprint([]byte("{ \"n\": 12345678901234567890,\n \"name\": \"a\"}")) {
		t.Error("order or space changed it")
	}
	if one == pins.Fingerprint([]byte(`{"name":"a","n":12345678901234567891}`)) {
		t.Error("a digit did not change it")
	}
}

// With two processes of a server, one of which shows another definition, the
// tool stays withheld whichever was looked at last; once the accepted one is
// back in the only process, it is served again.
func TestPinsDoNotFlap(t *testing.T) {
	s, err := pins.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	old, changed := defs{"a": []byte("1")}, defs{"a": []byte("2")}
	for _, step := range []struct {
		seen    defs
		sole    bool
		pending int
	}{{old, true, 0}, {changed, false, 1}, {old, false, 1}, {changed, false, 1}, {old, true, 0}} {
		if _, err := s.Pin("x", step.seen, step.sole); err != nil || len(s.Pending("x")) != step.pending {
			t.Errorf("%+v: %v, %v", step, s.Pending("x"), err)
		}
	}
}

// What two readers may take for two things is told apart to the last byte, or it could
// change unseen for one of them. Other spellings of the same are the same.
func TestFingerprintOfTwoReadings(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{`{"name":"a","description":"evil","description":"good"}`, `{"name":"a","description":"vile","description":"good"}`, false},
		{`{"inputSchema":{"p":{"d":"evil","d":"good"}}}`, `{"inputSchema":{"p":{"d":"vile","d":"good"}}}`, false},
		{"{\"name\":\"a\",\"d\":\"\xff\"}", "{\"name\":\"a\",\"d\":\"\xfe\"}", false},
		{`{"name":"a","d":"\ud800"}`, `{"name":"a","d":"\udfff"}`, false},
		{`{"inputSchema":{"p":{"d":"evil","e":"good"}}}`, `{"inputSchema":{"p":{"e":"g\u006fod", "d":"evil"}}}`, true},
	} {
		if same := pins.Fingerprint([]byte(c.a)) == pins.Fingerprint([]byte(c.b)); same != c.same {
			t.Errorf("%s and %s: one fingerprint: %v", c.a, c.b, same)
		}
	}
}
