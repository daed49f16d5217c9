package files_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

// No name whatsoever reads or changes anything outside. The workspace holds
// the links that a name could go through.
func FuzzPath(f *testing.F) {
	base := f.TempDir()
	dir, outside := filepath.Join(base, "w"), filepath.Join(base, "w-evil")
	for _, d := range []string{dir, outside, filepath.Join(dir, "d")} {
		must(f, os.Mkdir(d, 0o755))
	}
	secret := filepath.Join(outside, "s")
	must(f, os.WriteFile(secret, []byte("outside"), 0o644))
	for name, target := range map[string]string{"l": "../w-evil", "m": secret, "d/l": "../../w-evil/s", "d/n": "../l", "p": "/proc/self/root", "x": "d/../d/../l/new"} {
		must(f, os.Symlink(target, filepath.Join(dir, name)))
	}
	root, err := os.OpenRoot(dir)
	must(f, err)
	f.Cleanup(func() { root.Close() })
	w := files.New(root, dir, nil)
	for _, name := range []string{"d/../l/s", "l/s", "m", "d/l", "d/n/s", "p" + secret, "x", "../w-evil/s", "d/./..//l/../m", "l/../../w-evil/s", "\x00", "d/", "a\xff"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if text, err := w.Read(name); err == nil && strings.HasPrefix(text, "outside") {
			t.Fatalf("%q was read", name)
		}
		for _, appending := range []bool{false, true} {
			if wrote, err := w.Write(name, "inside", appending); err == nil {
				if data, err := os.ReadFile(filepath.Join(dir, wrote.Path)); err != nil || !strings.HasPrefix(string(data), "inside") {
					t.Fatalf("%q: not found at %q: %v", name, wrote.Path, err)
				}
			}
		}
		if d, err := w.Dir(name); err == nil {
			d.Close()
		}
		data, err := os.ReadFile(secret)
		entries, _ := os.ReadDir(outside)
		above, _ := os.ReadDir(base)
		if err != nil || string(data) != "outside" || len(entries) != 1 || len(above) != 2 {
			t.Fatalf("%q changed something outside: %q %v %v", name, data, entries, above)
		}
	})
}
