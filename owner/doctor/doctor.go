// Package doctor tests every hop of a request from this machine to the tools and
// back, and prints the proof and the fix of each.
//
// It never prints a token, and sends one only to the origin that its command
// line names (or, without a URL, to the loopback address that "make run" and
// "make up" serve): no redirect and no advertised endpoint moves it elsewhere.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/owner/client"
	"github.com/sallyport-dev/sallyport/owner/doctor/replay"
)

// Usage is the help text of the command.
const Usage = `usage: sallyport doctor [flags] [URL]
       sallyport doctor -as CLIENT [flags] URL

Walks the chain from here to the tools and prints one line per boundary: ok,
warn or fail, with the proof, and where it is not ok the likely cause and the
fix. Exit code 1 if a line says fail, otherwise 0.

URL is what a client would use, such as
  https://node.tailnet.ts.net/mcp-sandbox/sse
Without it: what "make run" or "make up" serves on this machine.

With -as it walks the steps of one client that logs in with OAuth instead: what
it discovers, how it registers, a link for you to open, its tokens, its refresh
and its first calls, and names the first answer that it would stumble over. URL
is then exactly what you type into that client.

flags:
  -as CLIENT          claude, claude-code, chatgpt, cursor, vscode or gemini
  -token-file FILE    the client token (default .sallyport/edge/client-token;
                      inside the container the backend's own)
  -backend URL        where sandboxd itself answers on this machine
                      (default http://127.0.0.1:18080)
  -traefik-api URL    Traefik's API, for its version and its dropped routers
  -idle DURATION      also keep a stream idle for this long, such as 6m
  -wait DURATION      how long an answer may take (default 10s); with -as you
                      have thirty times as long to agree
  -insecure           do not verify the certificate of URL (on loopback it is
                      never verified, like Funnel's https+insecure)
  -json               one JSON document instead of text
`

type options struct {
	url       *url.URL
	as        string // a client of replay, which uses the URL as it is
	tokenFile string
	backend   string
	api       string
	idle      time.Duration
	wait      time.Duration
	insecure  bool
	json      bool
	inside    bool // in the sandbox's own container
}

// Main runs "sallyport doctor" and returns its exit code: 1 if a boundary
// fails, 2 for a mistake on the command line.
var Main = cli.Tool("sallyport doctor", Usage, parse, walkChain)

func walkChain(ctx context.Context, opt options, stdout, stderr io.Writer) (int, error) {
	if opt.as != "" {
		return replayed(ctx, opt, stdout, stderr), nil
	}
	w := newWalk(ctx, opt)
	if !opt.json {
		fmt.Fprintf(stdout, "%s\n\n", w.base)
		w.say = func(l Line) { io.WriteString(stdout, l.text()) }
	}
	w.run()
	if opt.json {
		w.writeJSON(stdout)
	} else {
		w.summary(stdout)
	}
	return min(w.count(Fail), 1), nil
}

func parse(args []string) (options, error) {
	var opt options
	opt.inside = os.Getenv("MCP_IN_CONTAINER") == "true"
	f := cli.Flags("sallyport doctor")
	f.StringVar(&opt.tokenFile, "token-file", "", "")
	f.StringVar(&opt.as, "as", "", "")
	f.StringVar(&opt.backend, "backend", "", "")
	f.StringVar(&opt.api, "traefik-api", "", "")
	f.DurationVar(&opt.idle, "idle", 0, "")
	f.DurationVar(&opt.wait, "wait", 10*time.Second, "")
	f.BoolVar(&opt.insecure, "insecure", false, "")
	f.BoolVar(&opt.json, "json", false, "")
	if err := f.Parse(args); err != nil {
		return opt, err
	}
	if u, err := url.Parse(opt.backend); err != nil || opt.backend != "" && u.Host == "" {
		return opt, errors.New("-backend looks like http://127.0.0.1:18080")
	}
	if f.NArg() > 1 {
		return opt, errors.New("one URL at most, after the flags")
	}
	if f.NArg() == 1 {
		u, err := client.Base(f.Arg(0))
		if err != nil {
			return opt, err
		}
		opt.url = u
		if opt.as != "" {
			opt.url, err = url.Parse(f.Arg(0))
		}
		return opt, err
	}
	if opt.as != "" {
		return opt, errors.New("-as needs the URL as you type it into the client, such as https://node.tailnet.ts.net/mcp-oauth/sandbox/mcp")
	}
	return opt, nil
}

// replayed walks the steps of a client. No redirect is followed: the client would
// not, or not with its token.
func replayed(ctx context.Context, opt options, stdout, stderr io.Writer) int {
	code, err := replay.Command{
		Client: opt.as, URL: opt.url, In: os.Stdin, Out: stdout, JSON: opt.json, Wait: 30 * opt.wait,
		HTTP: &http.Client{Timeout: opt.wait, Transport: ways{client.Transport(opt.url, true),
			client.Transport(&url.URL{}, opt.insecure)},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}.Run(ctx)
	if err != nil {
		fmt.Fprintf(stderr, "sallyport doctor: %v\n", err)
	}
	return code
}

// ways reaches this machine, where no certificate is verified, and others, whose
// are: the issuer may be elsewhere.
type ways struct{ here, elsewhere http.RoundTripper }

// RoundTrip sends req.
func (w ways) RoundTrip(req *http.Request) (*http.Response, error) {
	if client.Loopback(req.URL) {
		return w.here.RoundTrip(req)
	}
	return w.elsewhere.RoundTrip(req)
}
