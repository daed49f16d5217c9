package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/sandboxd/shared"
)

// about are the commands that speak of the others. They are a function because
// the list of all commands contains them.
func about() []command {
	return []command{
		{"version", "print the version and what it was built from", version},
		{"completion", "print a completion script: bash, zsh or fish", completion},
		{"help", "print this, or the help of one command", help},
	}
}

func all() []command { return append(commands[:len(commands):len(commands)], about()...) }

func version(_ context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		fmt.Fprintln(stderr, "sandboxd version: it takes no arguments")
		return 2
	}
	fmt.Fprintf(stdout, "sandboxd %s %s %s/%s%s\n", shared.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, revision())
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

func help(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 {
		for _, c := range commands {
			if c.name == args[0] {
				return c.main(ctx, []string{"-h"}, stdout, stderr)
			}
		}
		if !slices.ContainsFunc(about(), func(c command) bool { return c.name == args[0] }) && args[0] != "-h" {
			return unknown(args[0])
		}
	}
	usage(stdout)
	return 0
}

func usage(out io.Writer) {
	fmt.Fprint(out, "usage: sandboxd COMMAND [flags]\n\n")
	for _, c := range all() {
		fmt.Fprintf(out, "  %-11s %s\n", c.name, c.help)
	}
	fmt.Fprint(out, "\nEach command has -h. To start: make run, or sandboxd local.\n")
}

// words are what may follow a command besides flags and files.
var words = map[string]string{"token": "new hash check", "completion": "bash zsh fish"}

func completion(_ context.Context, args []string, stdout, stderr io.Writer) int {
	names := []string{}
	for _, c := range all() {
		names = append(names, c.name)
	}
	list := strings.Join(names, " ")
	switch shell := strings.Join(args, " "); shell {
	case "bash", "zsh":
		if shell == "zsh" {
			fmt.Fprintln(stdout, "autoload -Uz bashcompinit && bashcompinit")
		}
		fmt.Fprintf(stdout, `_sandboxd() {
	local words=
	case "$COMP_CWORD:${COMP_WORDS[1]}" in
	1:*) words="%s" ;;
	2:token) words="%s" ;;
	2:completion) words="%s" ;;
	2:help) words="%s" ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _sandboxd sandboxd
`, list, words["token"], words["completion"], list)
	case "fish":
		fmt.Fprintf(stdout, "complete -c sandboxd -n __fish_use_subcommand -f -a '%s'\n", list)
		for _, name := range []string{"token", "completion"} {
			fmt.Fprintf(stdout, "complete -c sandboxd -n '__fish_seen_subcommand_from %s' -a '%s'\n", name, words[name])
		}
	default:
		fmt.Fprintln(stderr, "sandboxd completion: name the shell: bash, zsh or fish. For bash: source <(sandboxd completion bash)")
		return 2
	}
	return 0
}

// unknown says what to do instead.
func unknown(name string) int {
	if name != "" {
		fmt.Fprintf(os.Stderr, "sandboxd: there is no command %q\n\n", name)
	}
	usage(os.Stderr)
	return 2
}
