// Package audit is "sallyport audit": it checks and reads the records of calls.
// It needs the files only, no running server.
package audit

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	chain "github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/client"
)

const usage = `usage: sallyport audit verify [-anchors DIR] [-key FILE] [FILE...]
                                                                   is the chain whole, and how much of it is signed?
       sallyport audit tail [-n 20] [-f] [-json] [FILE]            the last records, -f: and those to come
       sallyport audit grep [FILTERS] [-json] [TEXT] [FILE]        records that fit; FILTERS: -principal -server -tool
                                                                   -verdict -session -request NAME, -since 2h
       sallyport audit show SEQ [FILE]                             everything about one call
       sallyport audit anchor [FILE]                               the newest signed checkpoint, to keep elsewhere
Without FILE: MCP_AUDIT_FILE, else the records below .sallyport/audit.
Exit code: 0 well, 1 something is wrong with a chain or nothing was found, 2 it could not be checked or wrong usage.
`

// Main runs one verb. Exit codes: 0 well, 1 something is wrong with a chain or
// nothing was found, 2 it could not be checked, or wrong usage.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	verbs := map[string]func(context.Context, []string, io.Writer) error{
		"verify": verify, "tail": tail, "grep": grep, "show": show, "anchor": anchor,
		"-h": help, "-help": help, "--help": help,
	}
	if len(args) == 0 || verbs[args[0]] == nil {
		if len(args) > 0 && args[0][:min(1, len(args[0]))] != "-" {
			fmt.Fprintf(stderr, "sallyport audit: there is no verb %q; see sallyport audit -h\n", args[0])
			return 2
		}
		fmt.Fprint(stderr, usage)
		return 2
	}
	err := verbs[args[0]](ctx, args[1:], stdout)
	switch {
	case err == nil:
		return 0
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case errors.Is(err, errFound):
		return 1
	case errors.Is(err, errNone):
		fmt.Fprintln(stderr, "sallyport audit:", err)
		return 1
	}
	fmt.Fprintln(stderr, "sallyport audit:", err)
	return 2
}

func help(context.Context, []string, io.Writer) error { return flag.ErrHelp }

// errFound ends a verb with exit code 1: what there is to say was printed.
var errFound = errors.New("found")

// errNone ends a verb with exit code 1: nothing fits.
var errNone = errors.New("nothing was found")

// parse reads a verb's flags.
func parse(fs *flag.FlagSet, args []string) error {
	fs.SetOutput(io.Discard)
	err := fs.Parse(args)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		err = fmt.Errorf("%s; see sallyport audit -h", strings.Replace(err.Error(), "parse error",
			"-n takes a number, -since a time such as 2h or 90m", 1))
	}
	return err
}

// Files are the chains that were named, or all there are: MCP_AUDIT_FILE, else those
// below .sallyport/audit of the working directory.
func Files(named []string) ([]string, error) {
	if len(named) > 0 {
		return named, nil
	}
	if file := os.Getenv("MCP_AUDIT_FILE"); file != "" && file != "-" {
		return []string{file}, nil
	}
	list, err := filepath.Glob(".sallyport/audit/*/audit.jsonl")
	if err == nil && len(list) == 0 {
		err = client.Barred()
	}
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("there are no records: name the file (looked for %s)",
			client.Here(".sallyport/audit/*/audit.jsonl"))
	}
	return list, err
}

// one is the only file.
func one(named []string) (string, error) {
	list, err := Files(named)
	if err == nil && len(list) > 1 {
		err = fmt.Errorf("there are several chains of records, one for each process: name one of these at the "+
			"end (sallyport watch shows the newest of all):\n  %s", strings.Join(list, "\n  "))
	}
	if err != nil {
		return "", err
	}
	return list[0], nil
}

func verify(_ context.Context, args []string, stdout io.Writer) error {
	var o chain.VerifyOptions
	fs := flag.NewFlagSet("verify", flag.ContinueOnError)
	fs.StringVar(&o.Anchors, "anchors", os.Getenv("MCP_ANCHOR_DIR"), "")
	fs.StringVar(&o.Key, "key", "", "")
	if err := parse(fs, args); err != nil {
		return err
	}
	list, err := Files(fs.Args())
	if err != nil {
		return err
	}
	var bad error
	for _, file := range list {
		r, err := chain.Verify(file, o)
		if err != nil {
			return fmt.Errorf("%w (FILE is the audit.jsonl of a chain, whose other files stand beside it)", err)
		}
		Report(stdout, file, r, o.Anchors != "")
		if r.Finding != nil {
			bad = errFound
		}
	}
	return bad
}

// Report prints what was found about one file.
func Report(w io.Writer, file string, r chain.Report, anchors bool) {
	if r.Finding != nil {
		fmt.Fprintf(w, "WRONG  %s\n       The records before it fit; of those from there on nothing is proven.\n",
			terminal.Escape(r.Finding.String()))
		return
	}
	fmt.Fprintf(w, "ok     %s: records %d to %d, whole\n", file, r.First, r.Last)
	if r.First > 1 {
		fmt.Fprintf(w, "       1 to %d were removed by retention, on the record\n", r.First-1)
	}
	fmt.Fprintf(w, "       signed up to %d (%s)%s\n", r.Signed, terminal.Escape(r.Key),
		rest(r.Signed, r.Last, "is in the chain, not signed yet"))
	if anchors {
		fmt.Fprintf(w, "       anchored up to %d%s\n", r.Anchored,
			rest(r.Anchored, r.Last, "could have been rewritten by whoever has FILE.key"))
	} else {
		fmt.Fprintln(w, "       not compared with anchors (-anchors DIR): whoever has FILE.key could have rewritten it")
	}
	if r.Torn {
		fmt.Fprintln(w, "       the last line is unfinished: its writer was interrupted, which is no tampering")
	}
	if r.Open > 0 {
		fmt.Fprintf(w, "       %d calls have begun and not ended: they run, or their process was killed\n", r.Open)
	}
}

func rest(upTo, last uint64, what string) string {
	if upTo >= last {
		return ""
	}
	return fmt.Sprintf("; %d to %d %s", upTo+1, last, what)
}

func anchor(_ context.Context, args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("anchor", flag.ContinueOnError)
	if err := parse(fs, args); err != nil {
		return err
	}
	file, err := one(fs.Args())
	if err != nil {
		return err
	}
	note, err := chain.Newest(file)
	if err != nil {
		return err
	}
	_, err = io.WriteString(stdout, note)
	return err
}
