// Package attack tries to get out of a running installation, as a malicious
// client would, and prints what stopped each attempt. Every attempt is
// harmless if it succeeds, and cleans up behind itself.
package attack

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/client"
)

// Usage is the help text of the command.
const Usage = `usage: sallyport attack [flags] [URL]

Tries the escapes that docs/attack.md lists against your own running
installation, as an ordinary MCP client with a token for run_command, read_file
and write_file. Prints one line of proof each; exit code 1 if one gets through.
What gets through does no harm: it touches a canary file, a canary listener or
at most 64 short-lived processes, and is cleaned up.

URL is what a client would use (default what make run serves here).

flags:
  -token-file FILE     the client token (default .sallyport/edge/client-token, or
                       MCP_AUTH_TOKEN_FILE); a token is never an argument
  -insecure            do not verify the certificate (never verified on loopback)
  -network             commands have the container's network on purpose
                       (MCP_COMMAND_NETWORK=container): do not count it
  -proxy-socket PATH   in the hub's container: also try what the policy proxy
                       must refuse (default MCP_PROXY_SOCKET)
`

// verdicts of an attempt.
const (
	held    = "held"
	through = "THROUGH"
	allowed = "allowed"
	skipped = "skipped"
)

type options struct {
	base                  *url.URL
	tokenFile, proxy      string
	insecure, withNetwork bool
}

// Main runs "sallyport attack". It returns 0 if everything held, 1 if something
// got through or could not be tried at all, 2 for a mistake on the command line.
var Main = cli.Tool("sallyport attack", Usage, parse, run)

func run(ctx context.Context, opt options, stdout, _ io.Writer) (int, error) {
	r := &report{out: stdout, opt: opt, nonce: strings.ToLower(rand.Text()[:12]), count: map[string]int{}}
	if opt.proxy != "" {
		r.proxy(ctx)
	}
	if err := r.sandbox(ctx); err != nil && opt.proxy == "" {
		return 1, fmt.Errorf("%w\nDoes it run, and are URL and token right? After make up the URL is "+
			"https://127.0.0.1:8443/mcp-sandbox. sallyport doctor finds out.", err)
	}
	fmt.Fprintf(stdout, "\n%d held, %d allowed on purpose, %d skipped, %d got through\n", r.count[held],
		r.count[allowed], r.count[skipped], r.count[through])
	if r.count[through] > 0 || r.count[held] == 0 {
		return 1, nil
	}
	return 0, nil
}

func parse(args []string) (opt options, err error) {
	f := cli.Flags("sallyport attack")
	file := os.Getenv("MCP_AUTH_TOKEN_FILE")
	if file == "" {
		file = ".sallyport/edge/client-token"
	}
	f.StringVar(&opt.tokenFile, "token-file", file, "")
	f.BoolVar(&opt.insecure, "insecure", false, "")
	f.BoolVar(&opt.withNetwork, "network", false, "")
	f.StringVar(&opt.proxy, "proxy-socket", os.Getenv("MCP_PROXY_SOCKET"), "")
	if err := f.Parse(args); err != nil {
		return opt, err
	}
	raw := "http://127.0.0.1:18080/mcp-sandbox"
	if f.NArg() > 1 {
		return opt, errors.New("one URL at most, after the flags")
	} else if f.NArg() == 1 {
		raw = f.Arg(0)
	} else if u := client.Served(); u != nil {
		raw = u.String()
	}
	opt.base, err = client.Base(raw)
	return opt, err
}

// report prints a line for each attempt as it is made.
type report struct {
	out   io.Writer
	opt   options
	nonce string // marks what this run makes, and the lines that say that an attempt succeeded
	count map[string]int
}

func (r *report) say(verdict, name, proof string) {
	r.count[verdict]++
	fmt.Fprintf(r.out, "%-8s %-44s %s\n", verdict, name+" ", telling(proof))
}

// telling is the line of what a command said that counts: that it got through, or
// else the last one.
func telling(s string) string {
	if _, got, ok := strings.Cut(s, "\nGOT "); ok {
		s, _, _ = strings.Cut(got, "\n")
	}
	s = strings.TrimSpace(s)
	return terminal.Line(s[strings.LastIndexByte(s, '\n')+1:], 160)
}
