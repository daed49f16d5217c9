package doctor_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

func isStream(res *http.Response) bool {
	return strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
}

// holding keeps what a stream sends until it ends.
type holding struct{ http.RoundTripper }

func (h holding) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := h.RoundTripper.RoundTrip(r)
	if err == nil && isStream(res) {
		res.Body = &held{res.Body}
	}
	return res, err
}

type held struct{ io.ReadCloser }

func (h *held) Read(p []byte) (int, error) {
	all, err := io.ReadAll(h.ReadCloser) // returns when the client has given up
	if err != nil {
		return 0, err
	}
	return copy(p, all), io.EOF
}

// cutting closes a stream that was quiet for three seconds, in which a busy machine says
// what it has to.
type cutting struct{ http.RoundTripper }

func (c cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.RoundTripper.RoundTrip(r)
	if err == nil && isStream(res) {
		res.Body = quiet{res.Body}
	}
	return res, err
}

type quiet struct{ io.ReadCloser }

func (q quiet) Read(p []byte) (int, error) {
	limit := time.AfterFunc(3*time.Second, func() { q.Close() })
	defer limit.Stop()
	n, err := q.ReadCloser.Read(p)
	if err != nil {
		err = io.EOF
	}
	return n, err
}

// rewriting changes a line of a stream.
type rewriting struct {
	http.RoundTripper
	old, new string
}

func (c rewriting) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := c.RoundTripper.RoundTrip(r)
	if err != nil || !isStream(res) {
		return res, err
	}
	in := res.Body
	out, w := io.Pipe()
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if _, err := io.WriteString(w, strings.Replace(lines.Text(), c.old, c.new, 1)+"\n"); err != nil {
				break
			}
		}
		w.Close()
		in.Close()
	}()
	res.Body = out
	return res, nil
}

// listenTLS serves target at an address whose name is not in the certificate.
func listenTLS(t *testing.T, addr, target string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := httputil.NewSingleHostReverseProxy(u)
	p.Transport = rig.HTTPClient("").Transport
	l, err := net.Listen("tcp", addr+":0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: p, ErrorLog: log.New(io.Discard, "", 0)}, TLS: &tls.Config{}}
	srv.StartTLS()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return l.Addr().String()
}
