// Package doctor_test breaks real set-ups, one way at a time, and asks doctor
// what is wrong with them.
package doctor_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

type line struct{ Boundary, Verdict, Proof, Finding, Cause, Fix string }

// report is one run of doctor.
type report struct {
	Lines   []line
	Skipped []string
	code    int
	text    string
}

func (r report) has(finding string) bool {
	return slices.ContainsFunc(r.Lines, func(l line) bool { return l.Finding == finding && l.Cause != "" && l.Fix != "" })
}

// bad are the findings, in their order.
func (r report) bad() (names []string) {
	for _, l := range r.Lines {
		if l.Finding != "" {
			names = append(names, l.Finding)
		}
	}
	return names
}

// doctor runs the real command. token must not appear in what it prints.
func doctor(t *testing.T, token string, args ...string) report {
	t.Helper()
	cmd := exec.Command(rig.Binary(t, "sallyport"), append([]string{"doctor", "-json"}, args...)...)
	cmd.Dir = t.TempDir()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	r := report{text: out.String() + errs.String(), code: cmd.ProcessState.ExitCode()}
	if jsonErr := json.Unmarshal(out.Bytes(), &r); jsonErr != nil {
		t.Fatalf("%v, %v:\n%s", err, jsonErr, r.text)
	}
	if token != "" && strings.Contains(r.text, token) {
		t.Error("doctor printed the token")
	}
	return r
}

// chain is a good set-up, with what doctor is told about it.
type chain struct {
	*rig.Chain
	file string // the client token's
}

func start(t *testing.T, o rig.ChainOptions) chain {
	t.Helper()
	c := rig.StartChain(t, o)
	return chain{c, filepath.Join(c.Files.EdgeDir, "client-token")}
}

func (c chain) doctor(t *testing.T, args ...string) report {
	t.Helper()
	return c.at(t, c.Base+"/sse", args...)
}

// at asks about another address of the same chain.
func (c chain) at(t *testing.T, url string, args ...string) report {
	t.Helper()
	all := []string{"-backend", c.Sandbox.URL, "-token-file", c.file}
	return doctor(t, c.Token, append(append(all, args...), url)...)
}

// proxy stands between the client and target, as Funnel or nginx would; change
// is made to what passes.
func proxy(t *testing.T, target string, change func(*httputil.ReverseProxy)) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(u)
		rig.Whole(r)
	}, FlushInterval: -1}
	p.Transport = rig.HTTPClient("").Transport
	p.ErrorLog = log.New(io.Discard, "", 0)
	if change != nil {
		change(p)
	}
	srv := httptest.NewTLSServer(p)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// outside is an address of this machine that is not loopback.
func outside(t *testing.T) string {
	t.Helper()
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() && !p.Addr().IsLoopback() {
			return p.Addr().String()
		}
	}
	rig.Need(t, os.ErrNotExist, "an address other than loopback")
	return ""
}

// forward listens on addr and passes bytes to target.
func forward(t *testing.T, addr, target string) {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	u := &url.URL{Scheme: "http", Host: target}
	go http.Serve(l, httputil.NewSingleHostReverseProxy(u))
}
