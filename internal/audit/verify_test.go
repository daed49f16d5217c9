package audit_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/audit/reader"
)

// length is that of the chain in the tampering tests.
const (
	length = 1000
	step   = 13 // of the lines in the middle, unless it is the soak
)

// Each way to tamper with one line, at each line: it is named, and the file
// and place fit. The twin is the untouched chain, which verifies.
func TestTamperingIsNamed(t *testing.T) {
	t.Parallel()
	file := chain(t, length, audit.Options{})
	whole := lines(t, file)
	if r := verify(t, file, audit.VerifyOptions{}); r.Finding != nil || r.Last != uint64(len(whole)) || r.Signed != r.Last || len(whole) < length {
		t.Fatalf("untouched: %+v, %d lines", r, len(whole))
	}
	for name, way := range tamperings {
		t.Run(name, func(t *testing.T) {
			for i := range whole {
				if testing.Short() || os.Getenv("SALLYPORT_SOAK") == "" && i > 10 && i < len(whole)-10 && i%step != 0 {
					continue
				}
				changed, kinds, off := way(slices.Clone(whole), i)
				if changed == nil {
					continue
				}
				put(t, file, changed)
				f := verify(t, file, audit.VerifyOptions{}).Finding
				if f == nil || !slices.Contains(kinds, f.Kind) || f.File != file || f.Line < i+1-off || f.Line > i+1+off {
					t.Fatalf("line %d: found %v, want one of %v within %d lines of it", i+1, f, kinds, off)
				}
				if i%step == 0 {
					if _, _, err := reader.Read(file); err == nil {
						t.Fatalf("line %d: the second reader sees nothing", i+1)
					}
				}
			}
		})
	}
	put(t, file, whole)
}

// A tampering returns the lines with something done at line i, what it may be
// called, and by how many lines the naming may be off.
type tampering func(lines [][]byte, i int) (changed [][]byte, kinds []string, off int)

var tamperings = map[string]tampering{
	"edit": func(l [][]byte, i int) ([][]byte, []string, int) {
		l[i] = bytes.Clone(l[i])
		l[i][len(l[i])/3] ^= 1
		return l, []string{audit.Changed}, 0
	},
	"edit with the hash computed again": func(l [][]byte, i int) ([][]byte, []string, int) {
		l[i] = rehash(bytes.Replace(l[i], []byte(`"kind":"`), []byte(`"kind":"x`), 1))
		return l, []string{audit.Changed, audit.Rebuilt}, 0
	},
	"the hash in other letters": func(l [][]byte, i int) ([][]byte, []string, int) {
		at := bytes.Index(l[i], []byte(`,"hash":"`)) + len(`,"hash":"`)
		l[i] = append(bytes.Clone(l[i][:at]), bytes.ToUpper(l[i][at:])...)
		return l, []string{audit.Changed}, 0
	},
	"garbage": func(l [][]byte, i int) ([][]byte, []string, int) {
		l[i] = []byte("garbage\n")
		return l, []string{audit.Changed}, 0
	},
	"remove": func(l [][]byte, i int) ([][]byte, []string, int) {
		if i == len(l)-1 {
			return l[:i], []string{audit.Cut}, 1
		}
		return slices.Delete(l, i, i+1), []string{audit.Removed}, 0
	},
	"swap": func(l [][]byte, i int) ([][]byte, []string, int) {
		if i == len(l)-1 {
			return nil, nil, 0
		}
		l[i], l[i+1] = l[i+1], l[i]
		return l, []string{audit.Reordered, audit.Inserted}, 0
	},
	"insert a copy": func(l [][]byte, i int) ([][]byte, []string, int) {
		return slices.Insert(l, i+1, l[i]), []string{audit.Inserted}, 1
	},
	"insert a line of another form": func(l [][]byte, i int) ([][]byte, []string, int) {
		return slices.Insert(l, i, []byte("{}\n")), []string{audit.Inserted}, 0
	},
	"cut": func(l [][]byte, i int) ([][]byte, []string, int) {
		if i == 0 {
			return nil, nil, 0
		}
		return l[:i], []string{audit.Cut}, 1
	},
	"cut within a line": func(l [][]byte, i int) ([][]byte, []string, int) {
		return append(l[:i:i], l[i][:len(l[i])/2]), []string{audit.Cut, audit.Changed}, 1
	},
}

// rehash gives an edited line the hash that fits it.
func rehash(line []byte) []byte {
	body, _, _ := bytes.Cut(line, []byte(`,"hash":"`))
	sum := sha256.Sum256(append(bytes.Clone(body), '}'))
	return fmt.Appendf(nil, "%s,\"hash\":\"%x\"}\n", body, sum)
}

// A chain that was built anew without the key, every hash right, does not fit
// what was signed; without the signatures their absence is named.
func TestRebuiltChainIsNamed(t *testing.T) {
	t.Parallel()
	file := chain(t, length, audit.Options{})
	put(t, file, rebuilt(lines(t, file)))
	if f := verify(t, file, audit.VerifyOptions{}).Finding; f == nil || f.Kind != audit.Rebuilt {
		t.Errorf("with the old signatures: %v", f)
	}
	if err := os.Remove(file + ".checkpoints"); err != nil {
		t.Fatal(err)
	}
	if f := verify(t, file, audit.VerifyOptions{}).Finding; f == nil || f.Kind != audit.Rebuilt {
		t.Errorf("without signatures: %v", f)
	}
}

// Each start is signed before its first call. Who rebuilds what was written before
// the last start, and removes the checkpoints that it does not fit, is found.
func TestStartWithoutCheckpointIsNamed(t *testing.T) {
	t.Parallel()
	file := chain(t, 10, audit.Options{})
	first, err := os.ReadFile(file + ".checkpoints")
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, audit.Options{File: file})
	call(t, l, 1)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if f := verify(t, file, audit.VerifyOptions{}).Finding; f != nil {
		t.Errorf("untouched: %v", f)
	}
	put(t, file, rebuilt(lines(t, file)))
	note, _, _ := strings.Cut(string(first), "=\n\n")
	if err := os.WriteFile(file+".checkpoints", []byte(note+"=\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := verify(t, file, audit.VerifyOptions{}).Finding; f == nil || f.Kind != audit.Rebuilt {
		t.Errorf("with the first checkpoint alone: %v", f)
	}
}

// rebuilt is a chain with other content after its first record, every hash right.
func rebuilt(built [][]byte) [][]byte {
	prev := strings.Repeat("0", 64)
	for i, line := range built {
		line = bytes.Replace(line, []byte("run_command"), []byte("read_file"), 1)
		at := bytes.Index(line, []byte(`"prev":"`)) + len(`"prev":"`)
		copy(line[at:], prev)
		built[i] = rehash(line)
		_, end, _ := bytes.Cut(built[i], []byte(`,"hash":"`))
		prev = string(end[:64])
	}
	return built
}

// Who cuts records and checkpoints alike is found only by an anchor that lies
// elsewhere. The twin shows that without one nothing is found.
func TestAnchorsFindACutTail(t *testing.T) {
	t.Parallel()
	anchors := t.TempDir()
	file := chain(t, length, audit.Options{AnchorDir: anchors})
	r := verify(t, file, audit.VerifyOptions{Anchors: anchors})
	if r.Finding != nil || r.Anchored != r.Last {
		t.Fatalf("untouched: %+v", r)
	}
	all := lines(t, file)
	put(t, file, all[:1])
	points, _ := os.ReadFile(file + ".checkpoints")
	notes := strings.SplitAfter(string(points), "=\n\n")
	if err := os.WriteFile(file+".checkpoints", []byte(notes[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := verify(t, file, audit.VerifyOptions{}).Finding; f != nil {
		t.Errorf("without anchors: %v", f)
	}
	if f := verify(t, file, audit.VerifyOptions{Anchors: anchors}).Finding; f == nil || f.Kind != audit.Cut {
		t.Errorf("with anchors: %v", f)
	}
}

// Another chain, signed with a key of its own, in the place of the first one.
func TestAnotherKeyIsNamed(t *testing.T) {
	t.Parallel()
	anchors := t.TempDir()
	file := chain(t, 10, audit.Options{AnchorDir: anchors})
	pub, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "pub")
	if err := os.WriteFile(kept, pub, 0o600); err != nil {
		t.Fatal(err)
	}
	forged := chain(t, 10, audit.Options{})
	if f := verify(t, forged, audit.VerifyOptions{}).Finding; f != nil {
		t.Errorf("twin, by itself: %v", f)
	}
	if f := verify(t, forged, audit.VerifyOptions{Key: kept}).Finding; f == nil || f.Kind != audit.Rebuilt {
		t.Errorf("with the key kept: %v", f)
	}
	if f := verify(t, forged, audit.VerifyOptions{Anchors: anchors}).Finding; f == nil || f.Kind != audit.Rebuilt {
		t.Errorf("with anchors: %v", f)
	}
}
