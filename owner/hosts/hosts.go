// Package hosts asks the installed package managers which hosts they fetch
// from, and prints them as rules of egress. No host is known here: what a
// mirror's owner has configured for the whole machine is what comes out.
package hosts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
)

// askBound is how long one tool may take to answer.
const askBound = 30 * time.Second

// An answer is what one tool fetches from.
type answer struct {
	urls  []string
	notes []string // what could not be found out, for the owner
}

// tools are those that can be asked, by name.
var tools = map[string]struct {
	program string
	ask     func(context.Context) (answer, error)
}{
	"go":    {"go", askGo},
	"npm":   {"npm", askNpm},
	"pip":   {"pip", askPip},
	"cargo": {"cargo", askCargo},
	"apt":   {"apt-get", askApt},
}

// Names are the tools that can be asked.
func Names() []string { return []string{"go", "npm", "pip", "cargo", "apt"} }

const usage = `usage: sallyport hosts go npm pip cargo apt

Prints, one a line, the rules of egress that these tools need, as their
configuration for the whole machine names them (never that of a workspace or a
person). Put them into EGRESS_ALLOW and into egress: of a token; make env
EGRESS=go,npm and make run EGRESS=go,npm do so.
`

// Main is "sallyport hosts".
var Main = cli.Tool("sallyport hosts", usage, names, printRules)

// names takes the tools' names, and no flags.
func names(args []string) ([]string, error) {
	f := cli.Flags("sallyport hosts")
	err := f.Parse(args)
	if err == nil && f.NArg() == 0 {
		err = errors.New("name at least one of go, npm, pip, cargo and apt")
	}
	return f.Args(), err
}

func printRules(ctx context.Context, args []string, stdout, stderr io.Writer) (int, error) {
	rules, notes, err := Expand(ctx, args)
	for _, n := range notes {
		fmt.Fprintln(stderr, "sallyport hosts:", n)
	}
	if err != nil {
		return 1, err
	}
	for _, r := range rules {
		fmt.Fprintln(stdout, r)
	}
	return 0, nil
}

// Expand turns words, which are names of tools or rules, into rules without
// repetition. The error names every mistake; notes are for the owner to read.
func Expand(ctx context.Context, words []string) (rules, notes []string, err error) {
	var mistakes []error
	for _, word := range words {
		found, more, err := expand(ctx, word)
		notes = append(notes, more...)
		if err != nil {
			mistakes = append(mistakes, err)
		}
		for _, r := range found {
			if !slices.Contains(rules, r) {
				rules = append(rules, r)
			}
		}
	}
	return rules, notes, errors.Join(mistakes...)
}

func expand(ctx context.Context, word string) (rules, notes []string, err error) {
	t, isTool := tools[word]
	if !isTool {
		r, err := egressrule.ParseCeiling(word)
		if err != nil {
			text := fmt.Sprintf("%v; tools are %s", err, strings.Join(Names(), ", "))
			return nil, nil, &cli.Fault{Code: 2, Text: text}
		}
		return []string{r.String()}, nil, nil
	}
	if _, err := exec.LookPath(t.program); err != nil {
		return nil, nil, fmt.Errorf("%s: there is no %s here to ask for its hosts: leave it out, or write them as "+
			"rules, such as packages.example.com", word, t.program)
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	a, err := t.ask(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w: write its hosts as rules", word, err)
	}
	for _, raw := range a.urls {
		r, err := rule(raw)
		if err != nil {
			return nil, nil, fmt.Errorf("%s fetches from %q: %w", word, raw, err)
		}
		rules = append(rules, r)
	}
	return rules, a.notes, nil
}

// rule is that of a URL.
func rule(raw string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" {
		return "", errors.New("that is no URL with a host")
	}
	text := u.Host
	switch u.Scheme {
	case "http":
		text = "http://" + text
	case "https":
	default:
		return "", fmt.Errorf("egress passes https and http only, not %s", u.Scheme)
	}
	r, err := egressrule.ParseCeiling(text)
	return r.String(), err
}

// run asks a program, in / and with an environment that holds nothing of a
// workspace and no configuration of a person.
func run(ctx context.Context, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	for _, keep := range []string{"PATH", "HOME", "LANG", "RUSTUP_HOME", "PYENV_ROOT"} {
		if v, ok := os.LookupEnv(keep); ok {
			cmd.Env = append(cmd.Env, keep+"="+v)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(out), nil
}
