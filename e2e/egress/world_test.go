// Package egress_test walks the whole way of a command's connection: a client's
// token, the real Traefik, the plugin, sandboxd, sallyport-egress and the hosts. All
// of it runs in a network namespace of the test, with egresstest's small Internet.
package egress_test

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/tools"
	"github.com/sallyport-dev/sallyport/egress/egresstest"
)

// The two hosts, by name. Both answer TLS on 443.
var addresses = map[string]string{"x.example": "93.184.215.10", "y.example": "93.184.215.11"}

var (
	ca    *egresstest.CA
	hosts = map[string]*egresstest.Log{} // by name
)

func TestMain(m *testing.M) {
	if os.Getenv(egresstest.Inside) == "" {
		os.Exit(enter())
	}
	dir, err := os.MkdirTemp("", "sallyport-e2e-egress-")
	if err == nil {
		err = world(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "the test's Internet:", err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// enter runs this test again in namespaces of its own. What may have to be
// fetched is made before: there is no way out from inside.
func enter() int {
	if os.Geteuid() == 0 {
		if _, err := tools.Traefik(); err != nil {
			fmt.Fprintln(os.Stderr, "Traefik:", err) // the test says so again
		}
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
		fmt.Fprintln(os.Stderr, "these tests need user, network and mount namespaces:", err)
		if os.Getenv("CI") == "true" {
			return 1
		}
	}
	return 0
}

// world makes the namespace's Internet: names, addresses and hosts.
func world(dir string) (err error) {
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
		l, err := egresstest.Listen(address + ":443")
		if err != nil {
			return err
		}
		hosts[name] = l
		server := &http.Server{TLSConfig: ca.Config(), ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(answer)}
		go server.ServeTLS(l, "", "")
	}
	return nil
}

// bigPath is a large body, for measurements.
const bigPath = "/64MiB"

// answer is what each host says: who it was asked as.
func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != bigPath {
		fmt.Fprintf(w, "this is %s", r.Host)
		return
	}
	chunk := make([]byte, 64<<10)
	for range 64 << 20 / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}
