package netclass_test

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/netclass"
)

// rows are the table as a reader would look things up: an address, and a word
// that its class contains. Each range is felt at its first and last address,
// and just outside.
var rows = `
0.0.0.0                    this network
0.255.255.255              this network
1.0.0.0                    public
1.1.1.1                    public
8.8.8.8                    public
9.255.255.255              public
10.0.0.0                   private
10.255.255.255             private
11.0.0.0                   public
100.63.255.255             public
100.64.0.0                 Tailscale
100.100.100.100            Tailscale
100.100.100.200            Tailscale
100.127.255.255            Tailscale
100.128.0.0                public
126.255.255.255            public
127.0.0.1                  loopback
127.255.255.255            loopback
128.0.0.0                  public
168.63.129.15              public
168.63.129.16              cloud platform
168.63.129.17              public
169.253.255.255            public
169.254.0.0                link-local
169.254.169.254            link-local
169.254.255.255            link-local
169.255.0.0                public
172.15.255.255             public
172.16.0.0                 private
172.17.0.1                 private
172.31.255.255             private
172.32.0.0                 public
192.0.0.0                  IETF
192.0.0.192                IETF
192.0.0.255                IETF
192.0.1.0                  public
192.0.2.1                  documentation
192.0.3.0                  public
192.88.98.255              public
192.88.99.1                6to4
192.88.100.0               public
192.167.255.255            public
192.168.0.0                private
192.168.255.255            private
192.169.0.0                public
198.17.255.255             public
198.18.0.0                 benchmarking
198.19.255.255             benchmarking
198.20.0.0                 public
198.51.100.7               documentation
198.51.101.0               public
203.0.113.255              documentation
203.0.114.0                public
223.255.255.255            public
224.0.0.1                  multicast
239.255.255.255            multicast
240.0.0.0                  reserved
255.255.255.254            reserved
255.255.255.255            broadcast
::                         unspecified
::1                        loopback
::2                        IPv4-compatible
::7f00:1                   IPv4-compatible
::808:808                  IPv4-compatible
::ffff:127.0.0.1           IPv4-mapped
::ffff:8.8.8.8             IPv4-mapped
::ffff:169.254.169.254     IPv4-mapped
::ffff:0:a9fe:a9fe         IPv4-translated
64:ff9b::a9fe:a9fe         NAT64
64:ff9b::808:808           NAT64
64:ff9b:1::a00:1           NAT64
64:ff9b:2::1               not allocated
100::1                     discard
100:0:0:1::1               not allocated
1fff:ffff::1               not allocated
2000::1                    public
2001::1                    Teredo
2001:0:53aa:64c::a9fe      Teredo
2001:2::1                  benchmarking
2001:3::1                  IETF
2001:10::1                 ORCHID
2001:20::1                 ORCHIDv2
2001:1ff:ffff::1           IETF
2001:200::1                public
2001:4860:4860::8888       public
2001:db7:ffff::1           public
2001:db8::1                documentation
2001:db9::1                public
2002:a9fe:a9fe::1          6to4
2002:808:808::1            6to4
2003::1                    public
2606:4700:4700::1111       public
2a00:1450:4001::5efe       public
2a00:1450:4001::5efe:a00:1 ISATAP
2a00:1450:4001:0:200:5efe:a00:1 ISATAP
2a00:1450:4001:0:1:5efe:a00:1   public
3ffe::1                    6bone
3fff::1                    documentation
3fff:fff:ffff::1           documentation
3fff:1000::1               public
4000::1                    not allocated
5f00::1                    not allocated
fc00::1                    unique local
fd00:ec2::254              unique local
fd20:ce::254               unique local
fd7a:115c:a1df::1          unique local
fd7a:115c:a1e0::1          Tailscale
fd7a:115c:a1e0:ffff::1     Tailscale
fd7a:115c:a1e1::1          unique local
fdff:ffff::1               unique local
fe00::1                    not allocated
fe80::1                    link-local
febf:ffff::1               link-local
fec0::1                    site-local
ff02::1                    multicast
2606:4700:4700::1111%eth0  zoned
fe80::1%eth0               zoned
`

func TestOf(t *testing.T) {
	for line := range strings.Lines(strings.TrimSpace(rows)) {
		address, want, _ := strings.Cut(strings.TrimSpace(line), " ")
		want = strings.TrimSpace(want)
		addr, err := netip.ParseAddr(address)
		if err != nil {
			t.Fatal(err)
		}
		if got := netclass.Of(addr); !strings.Contains(string(got), want) {
			t.Errorf("%s is %q, want %q", address, got, want)
		}
		if err := netclass.Check(addr); (err == nil) != (want == "public") {
			t.Errorf("Check(%s) = %v", address, err)
		} else if err != nil && !strings.Contains(err.Error(), address) {
			t.Errorf("Check(%s) does not name it: %v", address, err)
		}
	}
	if netclass.Check(netip.Addr{}) == nil {
		t.Error("the zero address is public")
	}
}

// What the standard library calls private, loopback, link-local, multicast or
// unspecified is never public here: another table, the same world.
func FuzzOf(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "8.8.8.8", "fd00::1", "2606:4700::1111", "::ffff:10.0.0.1"} {
		f.Add(netip.MustParseAddr(seed).AsSlice())
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, ok := netip.AddrFromSlice(raw)
		if !ok || netclass.Of(a) != netclass.Public {
			return
		}
		if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.Is4In6() {
			t.Errorf("%v is called public", a)
		}
	})
}

// A dialer with Control reaches no listener of this machine; its twin does.
func TestControl(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	twin, err := (&net.Dialer{}).Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	twin.Close()
	guarded := &net.Dialer{Control: netclass.Control}
	if c, err := guarded.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("a guarded dialer connected to loopback")
	} else if !strings.Contains(err.Error(), "loopback") {
		t.Errorf("the refusal does not say why: %v", err)
	}
	if err := netclass.Control("unix", "/run/x.sock", nil); err == nil {
		t.Error("an address that is none passed")
	}
}
