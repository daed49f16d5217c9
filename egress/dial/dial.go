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
	"github.com/sallyport-dev/sallyport/internal/publicdial"
)

const (
	resolveBound = 10 * time.Second
	connectBound = 10 * time.Second
)

// Resolve returns the addresses of a name: all are public (with private, also
// of the home network), or it is a *decision.Refusal. The name is looked up as
// it is, without the search list of resolv.conf.
func Resolve(ctx context.Context, name string, private bool) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveBound)
	defer cancel()
	addrs, err := publicdial.Resolve(ctx, name, func(a netip.Addr) error {
		if err := check(a, private); err != nil {
			return decision.Refuse(decision.NotPublic, "%s is allowed, but %v, so nothing was sent. %s", name, err,
				remedy(a))
		}
		return nil
	})
	var dns *net.DNSError
	var refused *decision.Refusal
	switch {
	case errors.As(err, &refused):
		return nil, refused
	case errors.As(err, &dns) && dns.IsTimeout:
		return nil, decision.Refuse(decision.Unresolvable,
			"%s is allowed, but egress's DNS server did not answer. Try again later.", name)
	case err != nil:
		return nil, decision.Refuse(decision.Unresolvable,
			"%s is allowed, but DNS knows no address of it. Check the spelling.", name)
	}
	return addrs, nil
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
	control := netclass.Control
	if private {
		control = nil
	}
	c, err := publicdial.Dial(ctx, addrs, t.Port, control)
	if err != nil {
		return nil, decision.Refuse(decision.Unreachable, "%s is allowed, but does not answer: %v.", t, err)
	}
	return c, nil
}
