// Package publicdial connects to names that somebody else chose: a name is resolved
// once, every address is looked at, and only those that were looked at are dialled.
package publicdial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/internal/netclass"
)

const (
	maxAddresses = 16                     // of a name; more are not tried
	stagger      = 250 * time.Millisecond // between attempts (RFC 8305 section 8)
	maxHeader    = 32 << 10               // bytes of an answer
)

// resolver is the system's configuration read by Go, so that an address is
// what the answer held: an IPv4-mapped one in an AAAA record stays one.
var resolver = &net.Resolver{PreferGo: true}

// Resolve returns the addresses of a name, of which each must pass check. The name is
// looked up as it is, without the search list of resolv.conf. That there is none is a
// *net.DNSError.
func Resolve(ctx context.Context, name string, check func(netip.Addr) error) ([]netip.Addr, error) {
	addrs, err := resolver.LookupNetIP(ctx, "ip", name+".")
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no address", Name: name, IsNotFound: true}
	}
	if err != nil {
		return nil, err
	}
	for _, a := range addrs {
		if err := check(a); err != nil {
			return nil, err
		}
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// A Control looks at each address again at the moment of connecting, as that of
// net.Dialer does.
type Control = func(network, address string, c syscall.RawConn) error

// Dial tries one address after another, each a moment after the one before or
// as soon as that has failed, and keeps the first connection.
func Dial(ctx context.Context, addrs []netip.Addr, port uint16, control Control) (*net.TCPConn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type outcome struct {
		c   net.Conn
		err error
	}
	outcomes := make(chan outcome)
	var first error
	next, running := 0, 0
	for next < len(addrs) || running > 0 {
		var wait <-chan time.Time
		if next < len(addrs) {
			go func(a netip.Addr) {
				c, err := connect(ctx, a, port, control)
				outcomes <- outcome{c, err}
			}(addrs[next])
			next, running = next+1, running+1
			wait = time.After(stagger)
		}
		select {
		case o := <-outcomes:
			running--
			if o.err == nil {
				go func() { // the others lose; cancel ends them
					for range running {
						if o := <-outcomes; o.c != nil {
							o.c.Close()
						}
					}
				}()
				return o.c.(*net.TCPConn), nil
			}
			if first == nil {
				first = o.err
			}
		case <-wait:
		}
	}
	return nil, reason(first)
}

func connect(ctx context.Context, a netip.Addr, port uint16, control Control) (net.Conn, error) {
	d := net.Dialer{Control: control}
	d.SetMultipathTCP(false)
	return d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, port).String())
}

// reason is why a connection failed, without the addresses around it.
func reason(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Err != nil {
		if op.Timeout() {
			return errors.New("no answer in time")
		}
		return op.Err
	}
	return err
}

// Client returns an HTTP client that connects to names with public addresses only and
// follows neither redirects nor a proxy. A request may last timeout in all.
func Client(timeout time.Duration) *http.Client {
	return &http.Client{
		Timeout:       timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext: public, DisableKeepAlives: true, TLSHandshakeTimeout: timeout,
			MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
		},
	}
}

func public(ctx context.Context, _, address string) (net.Conn, error) {
	name, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("the port %q is no number", service)
	}
	addrs, err := Resolve(ctx, name, netclass.Check)
	if err != nil {
		return nil, err
	}
	return Dial(ctx, addrs, uint16(port), netclass.Control)
}
