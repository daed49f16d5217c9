package cli

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/process"
)

// all are the program's commands and the ones that speak of them.
func (p Program) all() []Command {
	return append(p.Commands[:len(p.Commands):len(p.Commands)],
		Command{Name: "version", Help: "print the version and what it was built from", Main: p.version},
		Command{Name: "completion", Help: "print a completion script: bash, zsh or fish", Words: "bash zsh fish",
			Main: p.completion},
		Command{Name: "help", Help: "print this, or the help of one command", Main: p.help},
	)
}

func (p Program) version(_ context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && isHelp(args[0]) {
		p.usage(stdout)
		return 0
	}
	if len(args) > 0 {
		fmt.Fprintf(stderr, "%s version: it takes no arguments\n", p.Name)
		return 2
	}
	fmt.Fprintf(stdout, "%s %s %s %s/%s%s\n", p.Name, process.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH,
		revision())
	return 0
}

// revision is the commit that the binary was built from, where it is known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	text := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			text = " " + s.Value[:min(len(s.Value), 12)] + text
		case s.Key == "vcs.modified" && s.Value == "true":
			text += " (changed)"
		}
	}
	return text
}

func (p Program) help(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		p.usage(stdout)
		if p.Default == "" {
			return 0
		}
		fmt.Fprintln(stdout)
		args = []string{p.Default}
	}
	for _, c := range p.all() {
		switch {
		case c.Name != args[0]:
		case c.Name == "version" || c.Name == "completion" || c.Name == "help":
			p.usage(stdout)
			return 0
		default:
			return c.Main(ctx, []string{"-h"}, stdout, stderr)
		}
	}
	return p.unknown(args[0], stderr)
}

func (p Program) completion(_ context.Context, args []string, stdout, stderr io.Writer) int {
	switch shell := strings.Join(args, " "); {
	case isHelp(shell):
		p.usage(stdout)
	case shell == "bash":
		p.completeBash(stdout)
	case shell == "zsh":
		fmt.Fprintln(stdout, "autoload -Uz bashcompinit && bashcompinit")
		p.completeBash(stdout)
	case shell == "fish":
		fmt.Fprintf(stdout, "complete -c %s -n __fish_use_subcommand -f -a '%s'\n", p.Name, p.names())
		for _, c := range p.all() {
			if c.Words != "" {
				fmt.Fprintf(stdout, "complete -c %s -n '__fish_seen_subcommand_from %s' -a '%s'\n", p.Name, c.Name,
					c.Words)
			}
		}
	default:
		fmt.Fprintf(stderr, "%[1]s completion: name the shell: bash, zsh or fish. For bash: source <(%[1]s "+
			"completion bash)\n", p.Name)
		return 2
	}
	return 0
}

func (p Program) completeBash(out io.Writer) {
	function := "_" + strings.ReplaceAll(p.Name, "-", "_")
	fmt.Fprintf(out, "%s() {\n\tlocal words=\n\tcase \"$COMP_CWORD:${COMP_WORDS[1]}\" in\n\t1:*) words=\"%s\" ;;\n",
		function, p.names())
	for _, c := range p.all() {
		if words := c.Words; words != "" || c.Name == "help" {
			if c.Name == "help" {
				words = p.names()
			}
			fmt.Fprintf(out, "\t2:%s) words=\"%s\" ;;\n", c.Name, words)
		}
	}
	fmt.Fprintf(out, "\tesac\n\tCOMPREPLY=($(compgen -W \"$words\" -- \"${COMP_WORDS[COMP_CWORD]}\"))\n}\ncomplete "+
		"-o default -F %s %s\n", function, p.Name)
}

func (p Program) names() string {
	var names []string
	for _, c := range p.all() {
		names = append(names, c.Name)
	}
	return strings.Join(names, " ")
}

// nearest suggests the command that a misspelt name is one or two letters from.
func (p Program) nearest(name string) string {
	best, least := "", 3
	for _, c := range p.all() {
		if d := distance(name, c.Name); d < least && d < len(c.Name)-1 {
			best, least = c.Name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// distance is how many letters must be added, left out or changed (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
