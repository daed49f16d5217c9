package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Whoever reads the folder as Traefik does, file by file in the order of their
// names, while it is being written, reads no mark beside an older configuration:
// else a test asks Traefik while the configuration before is still in force.
func TestMarkIsNeverAheadOfItsConfiguration(t *testing.T) {
	tr := &Traefik{dynamic: filepath.Join(t.TempDir(), "dynamic")}
	tr.write(t, "1.")
	written := make(chan struct{})
	go func() {
		defer close(written)
		for range 1000 {
			tr.write(t, fmt.Sprintf("%d.", tr.generation.Load()+1))
		}
	}()
	defer func() { <-written }()
	for reads := 0; ; reads++ {
		mark, configuration := asTraefikReads(t, tr.dynamic)
		if mark > configuration {
			t.Fatalf("read mark %d beside configuration %d", mark, configuration)
		}
		select {
		case <-written:
			t.Logf("%d reads", reads)
			return
		default:
		}
	}
}

var generationOf = regexp.MustCompile("rig-([0-9]+)`")

func asTraefikReads(t *testing.T, dir string) (mark, configuration int) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if m := generationOf.FindSubmatch(data); m != nil {
			fmt.Sscan(string(m[1]), &mark)
		} else {
			fmt.Sscan(strings.TrimSuffix(string(data), "."), &configuration)
		}
	}
	return mark, configuration
}
