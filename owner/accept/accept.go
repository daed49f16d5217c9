// Package accept shows the owner which tool definitions of a server changed and
// accepts exactly what was shown.
package accept

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/hub/pins"
	"github.com/sallyport-dev/sallyport/internal/diff"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/jail"
)

const usage = `Usage: MCP_STATE_DIR=… sallyport accept NAME      shows which tools of the server NAME changed, and a SUM
       MCP_STATE_DIR=… sallyport accept NAME SUM  accepts exactly what was shown with it
Exit code: 0 nothing is withheld (any more), 1 something is, or an error, 2 wrong usage.
`

// Main is "sallyport accept". It needs the state directory only, so
// that it also runs beside the hub, in its container.
func Main(_ context.Context, args []string, stdout, stderr io.Writer) int {
	dir := os.Getenv("MCP_STATE_DIR")
	if len(args) < 1 || len(args) > 2 || strings.HasPrefix(args[0], "-") || dir == "" {
		fmt.Fprint(stderr, usage)
		return 2
	}
	// As whom the hub runs, so that it can read what is written here.
	space, err := jail.Prepare(dir)
	if err == nil {
		err = space.DropRoot()
	}
	if err == nil {
		err = review(space.Path, args[0], strings.Join(args[1:], ""), stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "sallyport accept:", err)
		return 1
	}
	return 0
}

// review accepts what sum stands for, or shows what is withheld.
func review(dir, server, sum string, stdout io.Writer) error {
	list, now, err := pins.Accept(dir, server, sum)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		fmt.Fprintf(stdout, "Nothing of %s is withheld.\n", server)
		return nil
	case sum == now:
		for _, c := range list {
			fmt.Fprintf(stdout, "accepted %s/%+q\n", server, c.Tool)
		}
		return nil
	}
	for _, c := range list {
		if err := show(c, stdout); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "To accept exactly this: sallyport accept %s %s\n", server, now)
	if sum != "" {
		return errors.New("nothing was accepted: this is not what that sum was given for")
	}
	return errors.New("nothing was accepted yet")
}

// show prints the difference of one tool.
func show(c pins.Change, stdout io.Writer) error {
	name := fmt.Sprintf("%+q", c.Tool)
	if c.New == nil {
		return fmt.Errorf("the new definition of %s was too long to be kept, and what cannot be shown cannot be accepted", name)
	}
	if c.Old == nil {
		fmt.Fprintf(stdout, "The accepted definition of %s was not kept; this is the whole new one.\n", name)
	}
	old, edits := compare(c.Old, c.New)
	_, err := fmt.Fprintln(stdout, diff.Unified(name, old, edits))
	return err
}

// compare is the old definition as text, and the edits that make the new one of
// it: one for each key, so that a diff shows nothing that did not change.
func compare(a, b json.RawMessage) (old string, edits []diff.Edit) {
	x, y := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	_, _ = json.Unmarshal(a, &x), json.Unmarshal(b, &y)
	keys := maps.Clone(x)
	maps.Copy(keys, y)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		before, after := member(key, x), member(key, y)
		if before != after {
			edits = append(edits, diff.Edit{At: len(old), Len: len(before), New: after})
		}
		old += before + "\n" // which parts one edit from the next
	}
	return old, edits
}

// lines breaks a JSON text where its strings hold a line break.
var lines = strings.NewReplacer(`\\`, `\\`, `\n`, "\\n\n    ")

// member is one key of a definition as lines for a terminal.
func member(key string, of map[string]json.RawMessage) string {
	if of[key] == nil {
		return ""
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(of[key]))
	dec.UseNumber()
	_ = dec.Decode(&v) // it was JSON before
	var text strings.Builder
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(map[string]any{key: v})
	return terminal.Wrap(lines.Replace(text.String()[len("{\n") : text.Len()-len("}\n")]))
}
