// Package reader reads a chain of records a second time, for tests: it is written from
// docs/audit.md alone, shares no code with package audit, and its one function has at
// most 60 lines (TestSizes), so that it is an example too.
package reader

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Read checks the chain of file, its segments, and its checkpoints. It returns the number
// of the last record, and that of the last one that a checkpoint covers.
func Read(file string) (last, signed int, err error) {
	heads, prev, missing := map[int]string{}, strings.Repeat("0", 64), 0
	paths, _ := filepath.Glob(file + ".[0-9]*")
	for _, path := range append(paths, file) {
		raw, err := os.ReadFile(path)
		if err != nil && (!os.IsNotExist(err) || len(paths) == 0) { // none just after a rotation
			return 0, 0, err
		}
		for _, line := range strings.SplitAfter(string(raw), "\n") {
			if !strings.HasSuffix(line, "\n") {
				continue // torn, or the empty rest
			}
			body, named, _ := strings.Cut(line, `,"hash":"`)
			sum := sha256.Sum256([]byte(body + "}"))
			var r struct {
				Seq, Through int
				Prev         string
			}
			if err := json.Unmarshal([]byte(body+"}"), &r); err != nil {
				return last, signed, err
			}
			if last == 0 && r.Seq > 1 {
				last, prev, missing = r.Seq-1, r.Prev, r.Seq-1 // after retention
			}
			if r.Through == missing {
				missing = 0
			}
			if r.Seq != last+1 || r.Prev != prev || hex.EncodeToString(sum[:])+"\"}\n" != named {
				return last, signed, fmt.Errorf("%s: record %d is wrong", path, last+1)
			}
			last, prev = r.Seq, hex.EncodeToString(sum[:])
			heads[last] = base64.StdEncoding.EncodeToString(sum[:])
		}
	}
	if missing != 0 {
		return last, 0, fmt.Errorf("nothing says why records 1 to %d are not there", missing)
	}
	pub, _ := os.ReadFile(file + ".pub")
	parts := strings.SplitN(strings.TrimSpace(string(pub)), "+", 3)
	key, _ := base64.StdEncoding.DecodeString(parts[2])
	points, _ := os.ReadFile(file + ".checkpoints")
	notes := strings.Split(string(points), "\n\n")
	for i := 0; i+1 < len(notes); i += 2 {
		words := strings.Fields(notes[i+1])
		sig, _ := base64.StdEncoding.DecodeString(words[2])
		if !ed25519.Verify(key[1:], []byte(notes[i]+"\n"), sig[4:]) {
			return last, signed, fmt.Errorf("checkpoint %d is not signed by the key", i/2)
		}
		text := strings.Split(notes[i], "\n")
		var count int
		fmt.Sscan(text[1], &count)
		if head, ok := heads[count]; count > last || ok && head != text[2] {
			return last, signed, fmt.Errorf("checkpoint %d does not fit the records", i/2)
		}
		signed = count
	}
	return last, signed, nil
}
