package doctor

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// event is one server-sent event; a comment has an empty name and data.
type event struct {
	name, data string
	at         time.Duration // since the request
}

// stream opens the legacy transport, where every misconfigured proxy shows: its
// first event must come at once and name a path inside the prefix.
func (w *walk) stream() bool {
	const boundary = "stream"
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	u := w.base.JoinPath("sse")
	start := time.Now()
	res, events, err := w.listen(ctx, u, start)
	if err != nil {
		if w.streamableAnswers() {
			w.found(boundary, "buffered", "GET %s: no header within %s, while POST on /mcp is answered", u, w.opt.wait)
		} else {
			w.noAnswer(boundary, u, err)
		}
		return false
	}
	headers := since(start)
	proof := fmt.Sprintf("GET %s: %d, headers after %s", u, res.StatusCode, headers)
	if name := streamFault(res); name != "" {
		w.found(boundary, name, "%s, Content-Type: %q", proof, res.Header.Get("Content-Type"))
		return false
	}
	first, open := next(events, w.opt.wait)
	switch {
	case !open:
		w.found(boundary, "not-a-stream", "%s, and the stream ends without an event", proof)
		return false
	case first == event{}:
		w.found(boundary, "buffered", "%s, no event within %s more", proof, w.opt.wait)
		return false
	}
	if late := first.at - headers; late > 2*time.Second {
		w.found(boundary, "delayed", "%s, first event %s later", proof, late.Round(100*time.Microsecond))
	} else {
		w.ok(boundary, "%s, first event %s later", proof, late.Round(100*time.Microsecond))
	}
	return w.endpoint(u, first)
}

func streamFault(res *http.Response) string {
	switch {
	case res.StatusCode == 401:
		return "token-refused"
	case res.StatusCode == 403:
		return "forbidden"
	case res.StatusCode == 429:
		return "rate-limited"
	case res.StatusCode == http.StatusMisdirectedRequest:
		return "host-refused"
	case res.StatusCode == http.StatusBadGateway && stoppedByEdge(res):
		return "answer-stopped"
	case res.StatusCode == 502 || res.StatusCode == 504:
		return "backend-unreachable"
	case res.StatusCode == 503:
		return "router-dropped"
	case res.StatusCode != 200 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream"):
		return "not-a-stream"
	}
	return ""
}

// stoppedByEdge says whether the plugin answered in the server's place: Traefik's
// own 502 has neither header.
func stoppedByEdge(res *http.Response) bool {
	return res.Header.Get("Cache-Control") == "no-store" && res.Header.Get("X-Content-Type-Options") == "nosniff"
}

// endpoint judges the address that clients are told to post to, as a client
// would resolve it.
func (w *walk) endpoint(at *url.URL, first event) bool {
	const boundary = "endpoint"
	if first.name != "endpoint" {
		w.found(boundary, "not-a-stream", "the first event is %q", first.name)
		return false
	}
	u, err := at.Parse(first.data)
	shown, _, _ := strings.Cut(first.data, "?") // what follows is the session's id
	switch {
	case err != nil:
		w.found(boundary, "endpoint-path", "data: %q cannot be read", shown)
	case u.Scheme != at.Scheme || u.Host != at.Host || u.User != nil:
		w.found(boundary, "endpoint-origin", "data: %s", shown)
	case !strings.HasPrefix(u.Path, w.base.Path+"/"):
		w.found(boundary, "endpoint-path", "data: %s is not inside %s", shown, w.base.Path)
	default:
		w.ok(boundary, "data: %s keeps the prefix", shown)
		return true
	}
	return false
}

// listen opens an event stream with the token.
func (w *walk) listen(ctx context.Context, u *url.URL, start time.Time) (*http.Response, <-chan event, error) {
	ctx, cancel := context.WithCancel(ctx)
	req, err := http.NewRequestWithContext(ctx, "GET", u.String(), nil)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	req.Header.Set("Accept", "text/event-stream")
	limit := time.AfterFunc(w.opt.wait, cancel) // for the headers only
	res, err := w.client(true).Do(req)
	if !limit.Stop() && err == nil {
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	events := make(chan event)
	go func() {
		defer cancel()
		defer res.Body.Close()
		defer close(events)
		scan(ctx, res, start, events)
	}()
	return res, events, nil
}

func scan(ctx context.Context, res *http.Response, start time.Time, events chan<- event) {
	var e event
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "event:"):
			e.name = strings.TrimSpace(line[6:])
			continue
		case strings.HasPrefix(line, "data:"):
			e.data = strings.TrimSpace(line[5:])
			continue
		case line == "" && e == event{}:
			continue
		case line != "" && line[0] != ':':
			continue
		}
		e.at = time.Since(start)
		select {
		case events <- e:
		case <-ctx.Done():
			return
		}
		e = event{}
	}
}

// next waits for an event that is not a comment. The zero event means that none
// came in time, false that the stream ended.
func next(events <-chan event, wait time.Duration) (event, bool) {
	end := time.After(wait)
	for {
		select {
		case e, open := <-events:
			if !open || e.name != "" || e.data != "" {
				return e, open
			}
		case <-end:
			return event{}, true
		}
	}
}

// streamableAnswers reports whether a plain POST with the token comes back,
// which tells a proxy that buffers from a server that is stuck.
func (w *walk) streamableAnswers() bool {
	r, err := w.ask("DELETE", w.base.JoinPath("mcp"), true)
	return err == nil && r.status < 500
}

// quiet keeps a stream open and quiet.
func (w *walk) quiet() {
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	start := time.Now()
	_, events, err := w.listen(ctx, w.base.JoinPath("sse"), start)
	if err != nil {
		w.noAnswer("idle", w.base.JoinPath("sse"), err)
		return
	}
	comments, last := 0, start
	end := time.After(w.opt.idle)
	for {
		select {
		case e, open := <-events:
			if !open {
				w.found("idle", "idle-cut", "closed after %s, %d keep-alive comments seen, the last %s before",
					time.Since(start).Round(time.Second), comments, time.Since(last).Round(time.Second))
				return
			}
			if e.name == "" {
				comments++
			}
			last = time.Now()
		case <-end:
			w.ok("idle", "open for %s, %d keep-alive comments", w.opt.idle, comments)
			return
		case <-w.ctx.Done():
			return
		}
	}
}
