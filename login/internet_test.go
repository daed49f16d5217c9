package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// internet is what login finds there: a DNS server, and one web server for all names.
type internet struct {
	mu      sync.Mutex
	names   map[string][]string // answers in turn; the last one stays
	asked   map[string]int
	pages   map[string]string // by host and path; "-> URL" redirects
	fetched map[string]int
	key     *rsa.PrivateKey
}

func newInternet(t *testing.T) *internet {
	t.Helper()
	n := &internet{names: map[string][]string{}, asked: map[string]int{}, pages: map[string]string{}, fetched: map[string]int{}}
	resolvers := []string{"127.0.0.1"}
	if raw, err := os.ReadFile("/etc/resolv.conf"); err == nil {
		for _, line := range strings.Split(string(raw), "\n") {
			if f := strings.Fields(line); len(f) > 1 && f[0] == "nameserver" {
				resolvers = append(resolvers, f[1])
			}
		}
	}
	run := func(args ...string) {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v %s", args, err, out)
		}
	}
	run("link", "set", "lo", "up")
	for _, a := range append(resolvers, public, "169.254.169.254", "10.1.2.3", "100.100.100.100") {
		if ip, err := netip.ParseAddr(a); err == nil && ip.Is4() && !ip.IsLoopback() {
			run("addr", "add", a+"/32", "dev", "lo")
		}
	}
	for _, a := range resolvers {
		conn, err := net.ListenPacket("udp", net.JoinHostPort(a, "53"))
		if err != nil {
			t.Logf("no DNS at %s: %v", a, err)
			continue
		}
		go n.dns(conn)
	}
	n.web(t)
	return n
}

func (n *internet) set(host string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.names[host], n.asked[host] = addresses, 0
}

func (n *internet) page(at, body string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pages[at] = body
}

func (n *internet) count(host string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[host]
}

func (n *internet) visits(at string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fetched[at]
}

// dns answers A questions (RFC 1035, section 4.1).
func (n *internet) dns(conn net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		q, labels := buf[:size], []string{}
		end := 12
		for end < size && q[end] != 0 {
			labels = append(labels, string(q[end+1:end+1+int(q[end])]))
			end += int(q[end]) + 1
		}
		end += 5
		name, kind := strings.ToLower(strings.Join(labels, ".")), binary.BigEndian.Uint16(q[end-4:])
		a := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
		n.mu.Lock()
		if list := n.names[name]; kind == 1 && len(list) > 0 {
			at := min(n.asked[name], len(list)-1)
			n.asked[name]++
			for _, one := range strings.Split(list[at], " ") {
				ip := netip.MustParseAddr(one).As4()
				a = append(append(a, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4), ip[:]...)
				a[7]++
			}
		} else if len(list) == 0 {
			a[3] |= 3 // no such name
		}
		n.mu.Unlock()
		_, _ = conn.WriteTo(a, from)
	}
}

// web serves every name on port 443 of all addresses, with a certificate that login's
// process is told to trust.
func (n *internet) web(t *testing.T) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	made := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"*.example"},
	}
	raw, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
	check(t, err)
	file := filepath.Join(t.TempDir(), "ca.pem")
	check(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), 0o600))
	t.Setenv("SSL_CERT_FILE", file)
	l, err := tls.Listen("tcp", ":443", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	n.key, err = rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	go func() { _ = http.Serve(l, n) }()
}

func (n *internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at := r.Host + r.URL.Path
	n.mu.Lock()
	n.fetched[at]++
	body, ok := n.pages[at]
	n.mu.Unlock()
	if to, moved := strings.CutPrefix(body, "-> "); moved {
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "<") {
		w.Header().Set("Content-Type", "text/html")
	}
	_, _ = w.Write([]byte(body))
}
