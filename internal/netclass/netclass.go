// Package netclass says what an IP address is for, from IANA's registries of
// special-purpose addresses. Whoever dials a name that somebody else chose
// asks it first, so that a name cannot lead into the machine, the home network
// or a cloud's metadata service.
//
// It is a list of what is refused for IPv4 and of what is allowed for IPv6,
// where only 2000::/3 has been given out (RFC 4291 section 2.4). What no table
// can know stays open: a NAT64 prefix of the network's own (RFC 6052 section
// 2.2) looks like any other public prefix.
package netclass

import (
	"fmt"
	"net/netip"
	"syscall"
)

// A Class names what an address is for, as messages say it.
type Class string

// The classes that a caller may want to tell apart. Every other class is only
// ever a reason to refuse.
const (
	Public      Class = "public"
	Private     Class = "private"      // RFC 1918
	UniqueLocal Class = "unique local" // RFC 4193, IPv6's private addresses
	Tailscale   Class = "Tailscale"    // and other carrier-grade NAT, RFC 6598
	Loopback    Class = "loopback"
)

// A row is one range and its class. The first row that contains an address
// decides, so a range stands before the wider one around it.
type row struct {
	prefix netip.Prefix
	class  Class
}

// table is built once; the sources are IANA's "IPv4 Special-Purpose Address
// Registry" and "IPv6 Special-Purpose Address Registry" of 2025-10 unless a
// row says otherwise.
var table = []row{
	r("0.0.0.0/8", "this network (RFC 791)"),
	r("10.0.0.0/8", Private),
	r("100.64.0.0/10", Tailscale), // RFC 6598; Alibaba's metadata service too
	r("127.0.0.0/8", Loopback),
	// learn.microsoft.com, "What is IP address 168.63.129.16?"
	r("168.63.129.16/32", "cloud platform (Azure's WireServer)"),
	r("169.254.0.0/16", "link-local (RFC 3927)"), // most clouds' metadata service
	r("172.16.0.0/12", Private),
	r("192.0.0.0/24", "IETF protocol assignments (RFC 6890)"), // Oracle's metadata service too
	r("192.0.2.0/24", "documentation (RFC 5737)"),
	r("192.88.99.0/24", "6to4 relay (RFC 7526)"),
	r("192.168.0.0/16", Private),
	r("198.18.0.0/15", "benchmarking (RFC 2544)"),
	r("198.51.100.0/24", "documentation (RFC 5737)"),
	r("203.0.113.0/24", "documentation (RFC 5737)"),
	r("224.0.0.0/4", "multicast (RFC 5771)"),
	r("255.255.255.255/32", "broadcast (RFC 919)"),
	r("240.0.0.0/4", "reserved (RFC 1112)"),

	r("::/128", "unspecified (RFC 4291)"),
	r("::1/128", Loopback),
	r("::ffff:0:0/96", "IPv4-mapped (RFC 4291)"),
	r("::ffff:0:0:0/96", "IPv4-translated (RFC 2765)"),
	r("::/96", "IPv4-compatible (RFC 4291)"),
	r("64:ff9b::/96", "NAT64 (RFC 6052)"),
	r("64:ff9b:1::/48", "NAT64 (RFC 8215)"),
	r("100::/64", "discard-only (RFC 6666)"),
	r("2001::/32", "Teredo (RFC 4380)"),
	r("2001:2::/48", "benchmarking (RFC 5180)"),
	r("2001:10::/28", "ORCHID (RFC 4843)"),
	r("2001:20::/28", "ORCHIDv2 (RFC 7343)"),
	r("2001::/23", "IETF protocol assignments (RFC 2928)"),
	r("2001:db8::/32", "documentation (RFC 3849)"),
	r("2002::/16", "6to4 (RFC 3056)"),
	r("3ffe::/16", "6bone, given back (RFC 3701)"),
	r("3fff::/20", "documentation (RFC 9637)"),
	r("fd7a:115c:a1e0::/48", Tailscale), // tailscale.com/kb/1033
	r("fc00::/7", UniqueLocal),
	r("fe80::/10", "link-local (RFC 4291)"),
	r("fec0::/10", "site-local (RFC 3879)"),
	r("ff00::/8", "multicast (RFC 4291)"),
}

func r(prefix string, class Class) row { return row{netip.MustParsePrefix(prefix), class} }

var given = netip.MustParsePrefix("2000::/3")

// Of returns the class of a. An invalid address, one with a zone, and one
// that embeds an IPv4 address are never Public, whatever they embed: a caller
// that was handed an IPv4 address in 16 bytes says a.Unmap() first.
func Of(a netip.Addr) Class {
	switch {
	case !a.IsValid():
		return "invalid"
	case a.Zone() != "":
		return "zoned (RFC 4007)"
	}
	for _, row := range table {
		// netip's Contains never matches an address of the other family, nor a
		// mapped one with an IPv4 prefix.
		if row.prefix.Contains(a) {
			return row.class
		}
	}
	switch {
	case a.Is4():
		return Public
	case !given.Contains(a):
		return "not allocated (RFC 4291)"
	case isatap(a):
		return "ISATAP (RFC 5214)"
	}
	return Public
}

// isatap reports an interface identifier that names an IPv4 host behind a
// site's ISATAP router, RFC 5214 section 6.1.
func isatap(a netip.Addr) bool {
	b := a.As16()
	return b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

// Check is nil for a public address, else an error that names the address and
// its class.
func Check(a netip.Addr) error {
	if c := Of(a); c != Public {
		return fmt.Errorf("the address %v is %s, not public", a, c)
	}
	return nil
}

// Control is for net.Dialer.Control: it refuses every address that is not
// public at the last moment before the connection, when names are resolved.
// The network must be one of IP (tcp, udp and their kin).
func Control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("cannot tell the class of %q: %w", address, err)
	}
	return Check(at.Addr())
}
