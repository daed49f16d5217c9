package proxy

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/egress/decision"
)

// hopByHop fields end at a proxy (RFC 9110 section 7.6.1), and so do those
// that whoever made the request did not mean for the other side.
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Upgrade", "Expect",
	"Proxy-Authenticate", "Proxy-Authorization", "Proxy-Authentication-Info"}

// forward sends one request in clear text and its answer back. Both are framed
// anew, so that what egress saw as one request is one request there, and what
// follows it on the connection is never sent.
func (x *exchange) forward(h head, up *net.TCPConn) error {
	req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(h.raw), x.in)))
	if err != nil {
		r := badRequest("the request cannot be read")
		x.answer(r)
		return r
	}
	if strings.EqualFold(req.Header.Get("Expect"), "100-continue") {
		if _, err := io.WriteString(x.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return err
		}
	}
	w := x.watch()
	defer w.stop()
	req = x.outgoing(req)
	answer, err := x.transport(w, up).RoundTrip(req)
	if err != nil {
		r := decision.Refuse(decision.Failed, "%s is allowed, but did not answer the request.", h.target)
		if x.why.Load() == nil {
			x.answer(r)
		}
		return r
	}
	defer answer.Body.Close()
	drop(answer.Header)
	answer.Close = true
	client := x.counted(w, x.client, &x.received)
	err = answer.Write(client)
	x.client.CloseWrite()
	if closed(client.failed) || x.lease.ctx.Err() != nil {
		return nil // as in pass
	}
	return err
}

// outgoing is the request as it leaves.
func (x *exchange) outgoing(req *http.Request) *http.Request {
	out := req.Clone(x.ctx)
	drop(out.Header)
	out.RequestURI, out.Close = "", true
	out.URL.Scheme, out.URL.User = "http", nil
	out.URL.Host, out.Host = req.URL.Host, req.URL.Host
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header.Set("User-Agent", "") // net/http would add its own
	}
	return out
}

func drop(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// transport sends one request over up.
func (x *exchange) transport(w *watch, up *net.TCPConn) http.RoundTripper {
	return &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			return countedConn{up, x.counted(w, up, &x.sent)}, nil
		},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
		ResponseHeaderTimeout: 2 * time.Minute,
	}
}

// countedConn is a connection whose writes are counted.
type countedConn struct {
	net.Conn
	to *counted
}

func (c countedConn) Write(p []byte) (int, error) { return c.to.Write(p) }
