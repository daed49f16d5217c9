// Package dial connects to a name: it resolves it once, looks at every address,
// and dials only those that it has looked at.
package dial

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/netclass"
)

const (
	maxAddresses = 16                     // of a name; more are not tried
	stagger      = 250 * time.Millisecond // between attempts (RFC 8305 section 8)
	resolveBound = 10 * time.Second
	connectBound = 10 * time.Second
)

// resolver is the system's configuration read by Go, so that an address is
// what the answer held: an IPv4-mapped one in an AAAA record stays one.
var resolver = &net.Resolver{PreferGo: true}

// Resolve returns the addresses of a name: all are public (with private, also
// of the home network), or it is a *decision.Refusal. The name is looked up as
// it is, without the search list of resolv.conf.
func Resolve(ctx context.Context, name string, private bool) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	addrs, err := resolver.LookupNetIP(ctx, "ip", name+".")
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsTimeout:
		return nil, decision.Refuse(decision.Unresolvable, "%s is allowed, but egress's DNS server did not answer. Try again later.", name)
	case err != nil || len(addrs) == 0:
		return nil, decision.Refuse(decision.Unresolvable, "%s is allowed, but DNS knows no address of it. Check the spelling.", name)
	}
	for _, a := range addrs {
		if err := check(a, private); err != nil {
			return nil, decision.Refuse(decision.NotPublic, "%s is allowed, but %v, so nothing was sent. %s", name, err, remedy(a))
		}
	}
	return addrs[:min(len(addrs), maxAddresses)], nil
}

// check allows what a private rule adds. Loopback, link-local and the like are
// egress's own machine and its cloud, never a host at home.
func check(a netip.Addr, private bool) error {
	switch c := netclass.Of(a); {
	case private && (c == netclass.Private || c == netclass.UniqueLocal || c == netclass.Tailscale):
		return nil
	default:
		return netclass.Check(a)
	}
}

func remedy(a netip.Addr) string {
	switch netclass.Of(a) {
	case netclass.Private, netclass.UniqueLocal, netclass.Tailscale:
		return "If the owner means a host at home, EGRESS_ALLOW takes a rule private:NAME:PORT."
	}
	return "No rule allows such an address."
}

// Dial connects to t. The error is a *decision.Refusal.
func Dial(ctx context.Context, t egressrule.Target, private bool) (*net.TCPConn, error) {
	addrs, err := Resolve(ctx, t.Name, private)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, connectBound)
	defer cancel()
	c, err := race(ctx, addrs, t.Port, private)
	if err != nil {
		return nil, decision.Refuse(decision.Unreachable, "%s is allowed, but does not answer: %v.", t, err)
	}
	return c, nil
}

// race tries one address after another, each a moment after the one before or
// as soon as that has failed, and keeps the first connection.
func race(ctx context.Context, addrs []netip.Addr, port uint16, private bool) (*net.TCPConn, error) {
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
				c, err := connect(ctx, a, port, private)
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

func connect(ctx context.Context, a netip.Addr, port uint16, private bool) (net.Conn, error) {
	var d net.Dialer
	if d.SetMultipathTCP(false); !private {
		d.Control = netclass.Control
	}
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
