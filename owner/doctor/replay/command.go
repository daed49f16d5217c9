package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Command is the terminal side of one replay.
type Command struct {
	Client string
	URL    *url.URL
	HTTP   *http.Client
	In     io.Reader // where the owner pastes the address that the browser ended at
	Out    io.Writer
	JSON   bool          // one document instead of text
	Wait   time.Duration // for the owner to agree
}

// Run replays and prints, and returns the exit code: 1 if the client stumbles.
func (c Command) Run(ctx context.Context) (int, error) {
	seq, err := Load(c.Client)
	if err != nil {
		return 2, err
	}
	talk := c.Out
	if c.JSON {
		talk = io.Discard
	}
	browser, err := newBrowser(seq, c.In, c.Out, c.Wait)
	if err != nil {
		return 2, err
	}
	defer browser.close()
	w := &Walk{URL: c.URL, HTTP: c.HTTP, Consent: browser.consent, Say: func(r Result) { fmt.Fprint(talk, r.text()) }}
	fmt.Fprintf(talk, "%s, as %s would use it from outside\n\n", c.URL, seq.Name)
	results := w.Run(ctx, seq)
	code := 0
	for _, r := range results {
		if r.Verdict == "fail" {
			code = 1
		}
	}
	if c.JSON {
		e := json.NewEncoder(c.Out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return code, e.Encode(results)
	}
	return code, nil
}

func (r Result) text() string {
	source := r.Source
	if r.Reconstructed {
		source += ", reconstructed"
	}
	s := fmt.Sprintf("%-7s  %-9s  %s\n", r.Verdict, r.Step, r.Text)
	if r.Stumble != "" {
		s += fmt.Sprintf("                    [%s] %s\n                    fix: %s\n                    source: %s\n",
			r.Stumble, r.Cause, r.Fix, source)
	}
	return s
}

// browser waits for what the owner's browser brings back: on the redirect URI
// where that is on this machine, else as a pasted line.
type browser struct {
	in       io.Reader
	out      io.Writer
	wait     time.Duration
	listener net.Listener
	back     chan string
}

// newBrowser listens where the client would, and fills in the port.
func newBrowser(seq *Sequence, in io.Reader, out io.Writer, wait time.Duration) (*browser, error) {
	b := &browser{in: in, out: out, wait: wait, back: make(chan string, 2)}
	u, err := url.Parse(strings.Replace(seq.Redirects[0], "{port}", "0", 1))
	if err != nil || u.Scheme != "http" {
		return b, err
	}
	if b.listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", u.Port())); err != nil {
		return nil, fmt.Errorf("the client waits for its answer at %s: %w (end what listens there)", u.Host, err)
	}
	_, port, _ := net.SplitHostPort(b.listener.Addr().String())
	seq.Redirects[0] = strings.Replace(seq.Redirects[0], "{port}", port, 1)
	origin := "http://" + u.Hostname() + ":" + port
	server := &http.Server{ReadHeaderTimeout: wait, Handler: http.HandlerFunc(func(rw http.ResponseWriter,
		r *http.Request) {
		if r.URL.Query().Get("state") == "" { // a favicon
			http.NotFound(rw, r)
			return
		}
		fmt.Fprintln(rw, "sallyport doctor has the answer. You can close this page.")
		select {
		case b.back <- origin + r.URL.RequestURI():
		default:
		}
	})}
	go server.Serve(b.listener)
	return b, nil
}

func (b *browser) close() {
	if b.listener != nil {
		b.listener.Close()
	}
}

// consent shows the link and waits. The end of the input is no answer, unless the
// browser can still bring one.
func (b *browser) consent(ctx context.Context, link, redirect string) (string, error) {
	fmt.Fprintf(b.out, "\nOpen this link in your browser, and agree:\n\n  %s\n\n", link)
	if b.listener == nil {
		fmt.Fprintf(b.out, "The browser then goes to %s, where this request is not known. Paste the address of "+
			"that page here\n"+
			"(an empty line ends the walk):\n", redirect)
	}
	lines := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(b.in).ReadString('\n')
		if line = strings.TrimSpace(line); line != "" || b.listener == nil || err == nil {
			lines <- line
		}
	}()
	select {
	case back := <-b.back:
		return back, nil
	case line := <-lines:
		return line, nil
	case <-time.After(b.wait):
		return "", nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
