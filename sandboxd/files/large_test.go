package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Large directories below each other are not all held in memory; what is missing of
// them is said. The twin: by itself the same directory is seen whole.
func TestLargeDirectoriesBelowEachOther(t *testing.T) {
	w, dir := open(t, map[string]string{"0/0/file": "x"})
	const many = 26_000
	for _, at := range []string{"0", "0/0"} {
		for i := range many {
			if err := os.Link(filepath.Join(dir, "0/0/file"), filepath.Join(dir, at, fmt.Sprint("l", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for at, all := range map[string]bool{"0": false, "0/0": true} {
		list, err := w.List(t.Context(), Walk{Dir: at}, 3*many)
		for err == nil && list.Next != "" { // a busy machine: the walk has taken its time
			var more Listing
			more, err = w.List(t.Context(), Walk{Dir: at, From: list.Next}, 3*many)
			list.Entries, list.Next = append(list.Entries, more.Entries...), more.Next
		}
		if notices := strings.Join(list.Notices, "\n"); err != nil || strings.Contains(notices, `"0/0"`) == all ||
			all != (len(list.Entries) == many+1) || len(list.Entries) > 50_000 {
			t.Errorf("%s: %d entries, %q, %v", at, len(list.Entries), notices, err)
		}
	}
}
