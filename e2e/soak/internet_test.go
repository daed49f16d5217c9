package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
	"github.com/sallyport-dev/sallyport/egress/egresstest"
)

// The two hosts of the test's Internet. Egress lets commands reach the first.
var addresses = map[string]string{"x.example": "93.184.215.10", "y.example": "93.184.215.11"}

var (
	ca        *egresstest.CA
	forbidden atomic.Int64 // connections of the second host
)

// TestMain runs the tests in a network and a mount namespace of their own: commands
// need an Internet, and a full disk shall be nobody else's.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run()) // the test says what it needs
	}
	if os.Getenv(egresstest.Inside) == "" {
		os.Exit(enter())
	}
	dir, err := os.MkdirTemp("", "sallyport-soak-")
	if err == nil {
		err = internet(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the test's Internet:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// enter runs this test again inside. What may have to be fetched is made before: there
// is no way out from inside.
func enter() int {
	if _, err := tools.Traefik(); err != nil {
		fmt.Fprintln(os.Stderr, "Traefik:", err) // the test says so again
	}
	again := exec.Command("/proc/self/exe", os.Args[1:]...)
	again.Env = append(os.Environ(), egresstest.Inside+"=true")
	again.Stdin, again.Stdout, again.Stderr, again.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, egresstest.Namespaces()
	err := again.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the soak needs network and mount namespaces:", err)
		return 1
	}
	return 0
}

// internet makes the namespace's names, addresses and hosts.
func internet(dir string) (err error) {
	var all []netip.Addr
	for _, a := range addresses {
		all = append(all, netip.MustParseAddr(a))
	}
	if err := egresstest.Setup(dir, all...); err != nil {
		return err
	}
	if ca, err = egresstest.NewCA(); err != nil {
		return err
	}
	dns, err := egresstest.ServeDNS()
	if err != nil {
		return err
	}
	for name, address := range addresses {
		dns.Set(name, address)
		l, err := net.Listen("tcp", address+":443")
		if err != nil {
			return err
		}
		server := &http.Server{TLSConfig: ca.Config(), ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "this is %s%s", r.Host, r.URL.Path) })}
		if name == "y.example" {
			server.ConnState = func(_ net.Conn, s http.ConnState) {
				if s == http.StateNew {
					forbidden.Add(1)
				}
			}
		}
		go server.ServeTLS(l, "", "")
	}
	return nil
}

// far is an MCP server of the test's own, over HTTP, that forgets its sessions at once.
type far struct {
	t      *testing.T
	addr   string
	url    string
	server *http.Server
}

func newFar(t *testing.T) *far {
	f := &far{t: t, addr: rig.FreeAddr(t)}
	f.url = "http://" + f.addr + "/mcp"
	f.start()
	t.Cleanup(func() { f.server.Close() })
	return f
}

type named struct {
	Name string `json:"name"`
}

func (f *far) start() {
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		f.t.Fatal(err)
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "far", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest, v named) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: v.Name}}}, nil, nil
	})
	server := &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, nil)}
	f.server = server
	go func() { _ = server.Serve(l) }() // until Close
}

// crash ends it with all its connections, and starts one that knows no session.
func (f *far) crash() {
	f.server.Close()
	f.start()
}
