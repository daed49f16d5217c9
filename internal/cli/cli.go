// Package cli dispatches the commands of our binaries: usage, version and help are
// the same everywhere.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/process"
)

// A Command is one verb of a binary. Main runs it with the arguments after the
// verb until ctx ends and returns the exit code: 0 done, 1 failed, 2 wrong usage
// or settings, 3 a required control is not available.
type Command struct {
	Name, Help string
	Words      string // what may follow the verb, for completion
	Main       Main
}

// A Program is one binary.
type Program struct {
	Name     string // as it is called
	Intro    string // what it is for, in one line
	Start    string // how to begin, the last line of the usage
	Commands []Command
	Default  string            // the command that flags alone, or nothing, mean; "" shows the usage
	Aliases  map[string]string // other names of commands, which the usage does not list
	Moved    map[string]string // commands of an earlier version, and the line to use instead
}

// Main runs the program with the process's arguments and exits.
func (p Program) Main() {
	os.Exit(p.Run(process.Context(), os.Args[1:], os.Stdout, os.Stderr))
}

// Run runs one command line and returns the exit code. A command of an earlier
// version is answered with the line that replaces it and 2.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name, rest := p.Default, args
	if len(args) > 0 && (p.Default == "" || !strings.HasPrefix(args[0], "-")) {
		name, rest = args[0], args[1:]
	}
	switch {
	case len(args) > 0 && isHelp(args[0]):
		name, rest = "help", nil
	case len(args) == 1 && (args[0] == "--version" || args[0] == "-version"):
		name, rest = "version", nil
	}
	for _, c := range p.all() {
		if c.Name == name || p.Aliases[name] == c.Name {
			return c.Main(ctx, rest, stdout, stderr)
		}
	}
	if line, ok := p.Moved[name]; ok {
		fmt.Fprintf(stderr, "%s: %q has moved: use %s\n", p.Name, name, line)
		return 2
	}
	return p.unknown(name, stderr)
}

func isHelp(arg string) bool { return slices.Contains([]string{"-h", "-help", "--help"}, arg) }

func (p Program) unknown(name string, stderr io.Writer) int {
	if name == "" {
		p.usage(stderr)
		return 2
	}
	fmt.Fprintf(stderr, "%s: there is no command %q%s; %[1]s -h lists them\n", p.Name, name, p.nearest(name))
	return 2
}

func (p Program) usage(out io.Writer) {
	verb := "COMMAND"
	if p.Default != "" {
		verb = "[COMMAND]"
	}
	fmt.Fprintf(out, "usage: %s %s [flags]\n\n%s\n\n", p.Name, verb, p.Intro)
	for _, c := range p.all() {
		fmt.Fprintf(out, "  %-11s %s\n", c.Name, c.Help)
	}
	fmt.Fprintf(out, "\nEach command has -h. %s\n", p.Start)
}
