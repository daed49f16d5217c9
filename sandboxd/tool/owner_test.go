package tool_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the owner is shown of a write: the file as it is, and the change. Nothing
// is written.
func TestChange(t *testing.T) {
	b := newBox(t)
	file := filepath.Join(b.dir, "a.txt")
	must(t, os.WriteFile(file, []byte("one\ntwo\nthree\n"), 0o644))
	change := func(name, arguments string) (digest, preview string, err error) {
		return b.set.Change(name, json.RawMessage(arguments))
	}
	first, _, err := change("write_file", `{"path":"a.txt","content":"x"}`)
	must(t, err)
	for arguments, want := range map[string]string{
		`{"path":"a.txt","content":"one\n2\nthree\n"}`:      "-two\n+2\n",
		`{"path":"a.txt","content":"four\n","append":true}`: " three\n+four\n",
		`{"path":"new.txt","content":"hello\n"}`:            "+hello\n",
		`{"path":"a.txt","content":"one\ntwo\nthree\n"}`:    "",
	} {
		digest, preview, err := change("write_file", arguments)
		if err != nil || !strings.Contains(preview, want) || want == "" && preview != "" {
			t.Errorf("%s: %v\n%s", arguments, err, preview)
		}
		if same := digest == first; same != strings.Contains(arguments, `"a.txt"`) {
			t.Errorf("%s: digest %s, that of a.txt is %s", arguments, digest, first)
		}
	}
	if _, preview, err := change("edit_file", `{"path":"a.txt","old_text":"two","new_text":"zwei"}`); err != nil || !strings.Contains(preview, "-two\n+zwei\n") {
		t.Errorf("edit_file: %v\n%s", err, preview)
	}
	for _, arguments := range []string{`{"path":"../work-evil/secret","content":"x"}`, `{"path":"/etc/passwd","content":""}`, `{"path":".","content":""}`, `[]`,
		`{"Path":"../x","path":"a.txt","content":"b"}`, `{"path":"a.txt","path":"b.txt","content":"b"}`} {
		if digest, preview, err := change("write_file", arguments); err == nil || strings.Contains(preview, "outside") {
			t.Errorf("%s: %s\n%s", arguments, digest, preview)
		}
	}
	if _, _, err := change("edit_file", `{"path":"a.txt","old_text":"nowhere","new_text":"x"}`); err == nil {
		t.Error("an edit that cannot be made")
	}
	must(t, os.WriteFile(file, []byte("other"), 0o644))
	if digest, _, _ := change("write_file", `{"path":"a.txt","content":"x"}`); digest == first {
		t.Error("the digest does not follow the file")
	}
	if raw, err := os.ReadFile(file); err != nil || string(raw) != "other" {
		t.Errorf("something was written: %q %v", raw, err)
	}
}

// The owner is shown which file a path leads to, and the digest is that file's: a
// link that comes in between changes it, whatever lies behind. The twin is the
// path itself.
func TestChangeFollowsLinks(t *testing.T) {
	b := newBox(t)
	must(t, os.Mkdir(filepath.Join(b.dir, "docs"), 0o755))
	must(t, os.Mkdir(filepath.Join(b.dir, "ci"), 0o755))
	change := func() (digest, preview string) {
		digest, preview, err := b.set.Change("write_file", json.RawMessage(`{"path":"docs/new.txt","content":"x\n"}`))
		must(t, err)
		return digest, preview
	}
	before, preview := change()
	if strings.Contains(preview, "leads to") {
		t.Errorf("twin:\n%s", preview)
	}
	must(t, os.Rename(filepath.Join(b.dir, "docs"), filepath.Join(b.dir, "old")))
	must(t, os.Symlink("ci", filepath.Join(b.dir, "docs")))
	after, preview := change()
	if after == before || !strings.Contains(preview, "leads to ci/new.txt") || !strings.Contains(preview, "+++ b/ci/new.txt") {
		t.Errorf("digest %s, before %s\n%s", after, before, preview)
	}
}
