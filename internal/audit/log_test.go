package audit_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/audit/reader"
)

// Rotation and retention keep the chain whole; what is pruned is explained.
// The twin removes a segment by hand.
func TestRotationAndRetention(t *testing.T) {
	t.Parallel()
	o := audit.Options{RotateBytes: 8 << 10, Keep: 4}
	file := chain(t, 600, o)
	closed, _ := filepath.Glob(file + ".0*")
	if len(closed) != o.Keep {
		t.Fatalf("%d closed segments, want %d", len(closed), o.Keep)
	}
	r := verify(t, file, audit.VerifyOptions{})
	if r.Finding != nil || r.First == 1 || r.Signed != r.Last || r.Open != 0 {
		t.Fatalf("%+v", r)
	}
	if last, signed, err := reader.Read(file); err != nil || uint64(last) != r.Last || uint64(signed) != r.Last {
		t.Errorf("second reader: %d records, %d signed, %v", last, signed, err)
	}
	for name, gone := range map[string]string{"oldest": closed[0], "middle": closed[2]} {
		raw, _ := os.ReadFile(gone)
		os.Remove(gone)
		if f := verify(t, file, audit.VerifyOptions{}).Finding; f == nil || f.Kind != audit.Removed {
			t.Errorf("the %s segment removed by hand: %v", name, f)
		}
		os.WriteFile(gone, raw, 0o600)
	}
}

// A rotation that a crash interrupted between its two steps goes on.
func TestInterruptedRotation(t *testing.T) {
	t.Parallel()
	file := chain(t, 20, audit.Options{})
	if err := os.Rename(file, file+".0000000000000001"); err != nil {
		t.Fatal(err)
	}
	l := open(t, audit.Options{File: file})
	call(t, l, 1)
	l.Close()
	if r := verify(t, file, audit.VerifyOptions{}); r.Finding != nil || r.First != 1 || r.Last < 24 {
		t.Errorf("%+v", r)
	}
}

// A torn last line is dropped at the next start, which says so, and is not
// called tampering before or after.
func TestTornLastLine(t *testing.T) {
	t.Parallel()
	for name, torn := range map[string]string{"half": `{"seq":99,"ki`, "binary": "\x00\x00\x00"} {
		file := chain(t, 20, audit.Options{})
		before := len(lines(t, file))
		f, _ := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
		f.WriteString(torn)
		f.Close()
		if r := verify(t, file, audit.VerifyOptions{}); r.Finding != nil || !r.Torn {
			t.Errorf("%s, before the start: %+v", name, r)
		}
		open(t, audit.Options{File: file}).Close()
		if r := verify(t, file, audit.VerifyOptions{}); r.Finding != nil || r.Torn || r.Last != uint64(before+1) {
			t.Errorf("%s, after the start: %+v", name, r)
		}
		var opened audit.Record
		if err := json.Unmarshal(lines(t, file)[before], &opened); err != nil || opened.TornBytes != int64(len(torn)) {
			t.Errorf("%s: the open record says %d torn bytes, %v", name, opened.TornBytes, err)
		}
	}
}

// A last line that only lacks its newline is whole and is kept.
func TestLastLineWithoutNewlineIsKept(t *testing.T) {
	t.Parallel()
	file := chain(t, 20, audit.Options{})
	info, _ := os.Stat(file)
	os.Truncate(file, info.Size()-1)
	l := open(t, audit.Options{File: file})
	l.Close()
	if r := verify(t, file, audit.VerifyOptions{}); r.Finding != nil {
		t.Errorf("%+v", r)
	}
}

// A writer does not go on with a chain that was cut, changed or robbed of its
// key. The twin is each of the other tests that opens a chain again.
func TestStartRefusesADamagedChain(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(file string){
		"cut":         func(file string) { put(t, file, lines(t, file)[:5]) },
		"gone":        func(file string) { os.Remove(file) },
		"foreign":     func(file string) { put(t, file, append(lines(t, file), []byte("hello\n"))) },
		"without key": func(file string) { os.Remove(file + ".key") },
		"other key":   func(file string) { os.WriteFile(file+".key", []byte("x"), 0o600) },
		"other pub":   func(file string) { os.WriteFile(file+".pub", []byte("x"), 0o600) },
		"a link":      func(file string) { os.Rename(file, file+".x"); os.Symlink(file+".x", file) },
	} {
		file := chain(t, 20, audit.Options{})
		damage(file)
		if l, err := audit.Open(audit.Options{File: file}); err == nil {
			l.Close()
			t.Errorf("%s: it starts", name)
		} else if !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two writers: the second one is refused, and may write after the first ended.
func TestSecondWriterIsRefused(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a", "audit.jsonl")
	first := open(t, audit.Options{File: file})
	if l, err := audit.Open(audit.Options{File: file}); err == nil {
		l.Close()
		t.Error("two writers at once")
	}
	call(t, first, 1)
	first.Close()
	open(t, audit.Options{File: file}).Close()
	if r := verify(t, file, audit.VerifyOptions{}); r.Finding != nil || r.Last != 4 {
		t.Errorf("%+v", r)
	}
}

// The folder's and the files' modes are set again at a start and at a
// rotation: a command of the same account can change them.
func TestModesAreRestored(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a", "audit.jsonl")
	l := open(t, audit.Options{File: file, RotateBytes: 2 << 10})
	call(t, l, 1)
	if err := os.Chmod(filepath.Dir(file), 0); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		call(t, l, n)
	}
	l.Close()
	if info, err := os.Stat(filepath.Dir(file)); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder after a rotation: %v %v", info.Mode(), err)
	}
	names, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"))
	if err != nil || len(names) < 6 { // with closed segments
		t.Fatal(names, err)
	}
	for _, closed := range []os.FileMode{0, 0o400, 0o300, 0o777} {
		for _, name := range names {
			os.Chmod(name, 0)
		}
		os.Chmod(file+".key", 0o777)
		os.Chmod(filepath.Dir(file), closed)
		open(t, audit.Options{File: file}).Close()
		for _, name := range names {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("folder %v, %s: %v", closed, name, err)
			}
		}
	}
	if r := verify(t, file, audit.VerifyOptions{}); r.Finding != nil {
		t.Errorf("%+v", r)
	}
}

// Arguments stay out unless asked for, and known secrets always do, however
// JSON spells them. The twin writes an unknown secret.
func TestArgumentsAndMasks(t *testing.T) {
	t.Parallel()
	const secret, other = "sekret-token-0123456789", "other-token-0123456789"
	arguments := []byte(`{"b":"x\u0073ekret-token-0123456789y","a":["` + other + `"],"` + secret + `":1.0}`)
	for _, keep := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "a", "audit.jsonl")
		l := open(t, audit.Options{File: file, Arguments: keep, Secrets: []string{secret, "short"}})
		p, err := l.Begin(audit.Call{Tool: secret, Session: "short", Arguments: arguments})
		if err != nil {
			t.Fatal(err)
		}
		p.End(audit.Outcome{Verdict: "ok"})
		l.Close()
		raw, _ := os.ReadFile(file)
		if bytes.Contains(raw, []byte("sekret")) || bytes.Contains(raw, []byte(other)) != keep || !bytes.Contains(raw, []byte("short")) {
			t.Errorf("keep %v: %s", keep, raw)
		}
		if keep && !bytes.Contains(raw, []byte(`{"[masked]":1.0,"a":["other-token-0123456789"],"b":"x[masked]y"}`)) {
			t.Errorf("arguments: %s", raw)
		}
	}
}

// Many calls at once: every begin has its end and the chain is whole.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a", "audit.jsonl")
	l := open(t, audit.Options{File: file, RotateBytes: 16 << 10})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range 50 {
				call(t, l, n)
			}
		})
	}
	all.Wait()
	l.Close()
	if r := verify(t, file, audit.VerifyOptions{}); r.Finding != nil || r.Last != 801 || r.Open != 0 {
		t.Errorf("%+v", r)
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	same := []string{`{"a":1,"b":[true,null,"\u00e9/"]}`, ` { "b" : [true,null,"é\/"], "a":1 } `}
	for _, text := range same {
		if got, err := audit.Canonical([]byte(text)); err != nil || string(got) != `{"a":1,"b":[true,null,"é/"]}` {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	if got, err := audit.Canonical(nil); err != nil || string(got) != "{}" {
		t.Errorf("nothing: %s, %v", got, err)
	}
	deep := strings.Repeat("[", 1<<20)
	for _, text := range []string{`{"a":1,"a":1}`, `{"a":1,"\u0061":2}`, `[{"x":{"y":1,"y":1}}]`, `{`, `{}{}`, `{} x`, deep, `nul`, `{"a":"\ud800"}`, "{\"a\":\"\xff\"}"} {
		if got, err := audit.Canonical([]byte(text)); err == nil {
			t.Errorf("%.20s: %.20s", text, got)
		}
	}
}

// Digests tell calls apart, and chains do not share them.
func TestDigest(t *testing.T) {
	t.Parallel()
	digest := func(l *audit.Log, text string) string {
		d, err := l.Digest([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	a := open(t, audit.Options{File: filepath.Join(t.TempDir(), "a", "x")})
	b := open(t, audit.Options{File: filepath.Join(t.TempDir(), "b", "x")})
	defer a.Close()
	defer b.Close()
	if digest(a, `{"x":1,"y":2}`) != digest(a, `{"y":2,"x":1}`) || digest(a, `{"x":1}`) == digest(a, `{"x":1.0}`) {
		t.Error("canonical form")
	}
	if digest(a, `{}`) == digest(b, `{}`) {
		t.Error("two chains have one key")
	}
}

// Stdout gets the same lines, a chain for each start. Nothing is recorded
// without a file, and nothing refused.
func TestStdoutAndNone(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := open(t, audit.Options{File: "-", Stdout: &out})
	call(t, l, 1)
	l.Close()
	if n := bytes.Count(out.Bytes(), []byte("\n")); n != 3 {
		t.Errorf("%d lines: %s", n, out.Bytes())
	}
	none := open(t, audit.Options{})
	call(t, none, 1)
	none.Refused(audit.Call{}, "not_granted")
	if err := errors.Join(none.Event("stopped", audit.Call{}, nil, true), none.Close()); err != nil {
		t.Error(err)
	}
}

// Whoever serves and whoever opened may both close it.
func TestSecondCloseDoesNothing(t *testing.T) {
	l, err := audit.Open(audit.Options{File: filepath.Join(t.TempDir(), "audit", "audit.jsonl")})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
