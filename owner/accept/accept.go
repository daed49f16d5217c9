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
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/diff"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/strictjson"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

const usage = `usage: sallyport accept NAME      shows which tools of the hub's server NAME changed, and a SUM
       sallyport accept NAME SUM  accepts exactly what was shown with it
It asks the running hub through its owner's socket (MCP_OWNER_SOCKET and MCP_OWNER_KEY_FILE, else
.sallyport/run/hub/owner.sock); with MCP_STATE_DIR it works on the hub's state directory itself.
Exit code: 0 nothing is withheld (any more), 1 something is, or an error, 2 wrong usage.
`

// Main is "sallyport accept". With MCP_STATE_DIR it needs the state directory
// only, so that it also runs beside the hub, in its container.
var Main = cli.Tool("sallyport accept", usage, parse, run)

// parse takes NAME and, with it, SUM.
func parse(args []string) ([]string, error) {
	f := cli.Flags("sallyport accept")
	err := f.Parse(args)
	if err == nil && (f.NArg() < 1 || f.NArg() > 2) {
		err = errors.New("it takes NAME, and SUM to accept")
	}
	return f.Args(), err
}

func run(ctx context.Context, args []string, stdout, _ io.Writer) (int, error) {
	dir, server, sum := os.Getenv("MCP_STATE_DIR"), args[0], strings.Join(args[1:], "")
	if dir == "" {
		return 0, throughSocket(ctx, server, sum, stdout)
	}
	return 0, inDirectory(dir, server, sum, stdout)
}

// inDirectory works on the state directory, as whom the hub runs, so that it
// can read what is written here.
func inDirectory(dir, server, sum string, stdout io.Writer) error {
	space, err := jail.Prepare(dir)
	if err == nil {
		err = space.DropRoot()
	}
	if err != nil {
		return err
	}
	list, now, err := pins.Accept(space.Path, server, sum)
	if err != nil {
		return err
	}
	return review(list, now, server, sum, stdout)
}

// throughSocket asks the running hub.
func throughSocket(ctx context.Context, server, sum string, stdout io.Writer) error {
	s := approve.Sockets{}
	if err := s.Fill(); err != nil { // nothing runs here
		return err
	}
	if os.Getenv("MCP_OWNER_SOCKET") == "" {
		s.Paths = []string{".sallyport/run/hub/owner.sock"}
	}
	c, err := s.Connect(ctx, s.Paths[0])
	if err != nil {
		return err
	}
	defer c.Close()
	var w ownersock.Withheld
	if err := c.Do(ownersock.Request{Op: ownersock.OpWithheld, Name: server}, &w); err != nil {
		return err
	}
	list := []pins.Change{}
	for _, change := range w.Changes {
		list = append(list, pins.Change(change))
	}
	if sum != "" && sum == w.Sum && len(list) > 0 {
		if err := c.Do(ownersock.Request{Op: ownersock.OpAccept, Name: server, Sum: sum}, nil); err != nil {
			return err
		}
	}
	return review(list, w.Sum, server, sum, stdout)
}

// review says what was accepted, or shows what is withheld.
func review(list []pins.Change, now, server, sum string, stdout io.Writer) error {
	switch {
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
	fmt.Fprintf(stdout, "To accept exactly this: sallyport accept %s %s\n", server, terminal.Escape(now))
	if sum != "" {
		return errors.New("nothing was accepted: this is not what that sum was given for")
	}
	return errors.New("nothing was accepted yet")
}

// show prints the difference of one tool.
func show(c pins.Change, stdout io.Writer) error {
	name := fmt.Sprintf("%+q", c.Tool)
	if c.New == nil {
		return fmt.Errorf("the new definition of %s was too long to be kept, and what cannot be shown cannot be "+
			"accepted", name)
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
	if strictjson.Into(a, new(any)) != nil || strictjson.Into(b, new(any)) != nil { // a map takes one of two
		const whole = "the definition"
		x, y = map[string]json.RawMessage{whole: a}, map[string]json.RawMessage{whole: b}
	}
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
	if strictjson.Into(of[key], new(any)) != nil { // as it is, with both of a key that is there twice
		return terminal.Wrap(fmt.Sprintf("  %q: %s\n", key, lines.Replace(string(of[key]))))
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
