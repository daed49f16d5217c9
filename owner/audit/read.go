package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	chain "github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/client"
)

// look is how often tail -f looks for more.
const look = 500 * time.Millisecond

// maxLast bounds tail -n.
const maxLast = 100_000

func tail(ctx context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("tail", flag.ContinueOnError)
	n := fs.Int("n", 20, "")
	follow := fs.Bool("f", false, "")
	raw := fs.Bool("json", false, "")
	if err := parse(fs, args); err != nil {
		return err
	}
	file, err := one(fs.Args())
	if err != nil {
		return err
	}
	if *n < 0 || *n > maxLast {
		return fmt.Errorf("-n must be from 0 to %d", maxLast)
	}
	var last []chain.Line
	seen := uint64(0)
	err = chain.Lines(file, func(l chain.Line) bool {
		r, ok := l.Record()
		if !ok {
			return true
		}
		seen = max(seen, r.Seq)
		if last = append(last, l); len(last) > *n {
			last = last[1:]
		}
		return true
	})
	if err == nil && seen == 0 && !*follow {
		return fmt.Errorf("%w: %s holds no record", errNone, file)
	}
	for _, l := range last {
		print(stdout, l, *raw)
	}
	for err == nil && *follow {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(look):
		}
		err = chain.After(file, seen, func(l chain.Line, r chain.Record) { print(stdout, l, *raw); seen = r.Seq })
	}
	return err
}

func print(w io.Writer, l chain.Line, raw bool) {
	if raw {
		fmt.Fprintln(w, terminal.JSON(string(l.Text)))
		return
	}
	if r, ok := l.Record(); ok {
		fmt.Fprintln(w, client.Fold(w, Line(r)))
	}
}

// Words are what a record tells (an event, a verdict, else its kind) and of which tool.
func Words(r chain.Record) (what, tool string) {
	if tool = r.Tool; r.Server != "" {
		tool = r.Server + "/" + r.Tool
	}
	return cmp.Or(r.Event, r.Verdict, r.Kind), tool
}

// Line is one record in one line for a terminal; a usual one has at most 80 columns.
func Line(r chain.Record) string {
	what, tool := Words(r)
	line := fmt.Sprintf("%-6d %s %-9s %-14s %s", r.Seq, r.Time.Local().Format("01-02 15:04:05"), what, r.Principal,
		tool)
	if r.Kind == chain.KindEnd {
		line += fmt.Sprintf(" %d ms, %d bytes", r.MS, r.ResultBytes)
	}
	return terminal.Line(strings.TrimRight(line+Details(r), " "), 400)
}

// Details are those of a record that say most, for the end of its line.
func Details(r chain.Record) (text string) {
	for _, key := range []string{"outcome", "reason", "target", "name", "host", "port"} {
		if v := r.Details[key]; v != "" {
			text += " " + key + "=" + v
		}
	}
	return text
}

func grep(_ context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("grep", flag.ContinueOnError)
	want := map[string]*string{}
	for _, name := range []string{"principal", "server", "tool", "verdict", "session", "request"} {
		want[name] = fs.String(name, "", "")
	}
	since := fs.Duration("since", 0, "")
	raw := fs.Bool("json", false, "")
	if err := parse(fs, args); err != nil {
		return err
	}
	text, rest := fs.Arg(0), fs.Args()
	if info, err := os.Stat(text); len(rest) == 1 && err == nil && info.Mode().IsRegular() {
		text = "" // it is FILE
	} else if len(rest) > 0 {
		rest = rest[1:]
	}
	file, err := one(rest)
	if err != nil {
		return err
	}
	found := 0
	begin := time.Now().Add(-*since)
	err = chain.Lines(file, func(l chain.Line) bool {
		r, ok := l.Record()
		fits := ok && strings.Contains(string(l.Text), text) && (*since == 0 || r.Time.After(begin))
		for name, value := range map[string]string{"principal": r.Principal, "server": r.Server, "tool": r.Tool,
			"verdict": r.Verdict, "session": r.Session, "request": r.Request} {
			fits = fits && (*want[name] == "" || *want[name] == value)
		}
		if fits {
			found++
			print(stdout, l, *raw)
		}
		return true
	})
	if err == nil && found == 0 {
		return fmt.Errorf("%w: no record of %s fits", errNone, file)
	}
	return err
}

// show prints the records of one call: the named one, its begin, its end.
func show(_ context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("show", flag.ContinueOnError)
	if err := parse(fs, args); err != nil {
		return err
	}
	seq, err := strconv.ParseUint(fs.Arg(0), 10, 64)
	if err != nil {
		return errors.New("show wants the sequence number of a record, as tail prints it")
	}
	file, err := one(fs.Args()[1:])
	if err != nil {
		return err
	}
	begin, found := seq, false // the named record says which call it belongs to
	err = chain.Lines(file, func(l chain.Line) bool {
		r, ok := l.Record()
		if found = ok && r.Seq == seq; found && r.Kind == chain.KindEnd {
			begin = r.Begin
		}
		return !found
	})
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: %s has no record %d", errNone, file, seq)
	}
	return chain.Lines(file, func(l chain.Line) bool {
		if r, ok := l.Record(); ok && (r.Seq == begin || r.Begin == begin || r.Seq == seq) {
			pretty(stdout, l)
		}
		return true
	})
}

// pretty prints a record member by member, in the order in which they stand.
func pretty(w io.Writer, l chain.Line) {
	d := json.NewDecoder(strings.NewReader(string(l.Text)))
	_, _ = d.Token()
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return
		}
		var text string
		if json.Unmarshal(value, &text) != nil {
			text = string(value)
		}
		text = terminal.WrapAt(text, terminal.Width-16) // and none of its lines looks like a member
		fmt.Fprintf(w, "%-15s %s\n", terminal.Escape(fmt.Sprint(key)), strings.ReplaceAll(text, "\n",
			"\n"+strings.Repeat(" ", 16)))
	}
	fmt.Fprintln(w)
}
