package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/netclass"
)

// selfTest tries what egress must refuse, through the same code that serves
// commands, without a host and without the audit: one that lets something pass does
// not start.
func (s *Server) selfTest(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, testBound)
	defer cancel()
	return errors.Join(testClasses(), testNames(ctx), s.testRequests(ctx))
}

const testBound = 10 * time.Second

// testClasses asks the class table for one address of each kind. The public ones
// show that it does not refuse them all.
func testClasses() (err error) {
	for _, a := range []string{
		"0.0.0.0", "10.0.0.1", "100.100.100.100", "127.0.0.1", "168.63.129.16", "169.254.169.254", "172.17.0.1",
		"192.168.0.1", "224.0.0.1", "255.255.255.255", "::", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2001::1",
		"2002:a00:1::1", "fd00::1", "fd7a:115c:a1e0::1", "fe80::1", "ff02::1",
	} {
		if netclass.Check(netip.MustParseAddr(a)) == nil {
			err = errors.Join(err, fmt.Errorf("the class table takes %s for public", a))
		}
	}
	for _, a := range []string{"1.1.1.1", "2606:4700::1"} {
		if e := netclass.Check(netip.MustParseAddr(a)); e != nil {
			err = errors.Join(err, fmt.Errorf("the class table refuses a public address: %w", e))
		}
	}
	return err
}

// testNames reads first messages behind a CONNECT: that of a TLS client that names
// the host passes, and nothing else.
func testNames(ctx context.Context) error {
	target := egressrule.Target{Name: selfName, Port: 443}
	for named, want := range map[string]decision.Verdict{selfName: decision.OK,
		"other." + selfName: decision.SNIMismatch} {
		ours, theirs := net.Pipe()
		go tls.Client(theirs, &tls.Config{ServerName: named}).HandshakeContext(ctx)
		_, err := readHello(ours, target)
		ours.Close()
		theirs.Close()
		if got := verdictOf(err); got != want {
			return fmt.Errorf("a TLS handshake for %s behind a CONNECT to %s is %s, not %s", named, target, got, want)
		}
	}
	_, err := readHello(strings.NewReader("GET / HTTP/1.1\r\n\r\n"), target)
	if got := verdictOf(err); got != decision.NoTLS {
		return fmt.Errorf("clear text behind a CONNECT is %s, not %s", got, decision.NoTLS)
	}
	return nil
}

func verdictOf(err error) decision.Verdict {
	if err == nil {
		return decision.OK
	}
	return refusalOf(err).Verdict
}

// selfName is a name that nobody can have (RFC 6761 section 6.4).
const selfName = "self-test.sallyport.invalid"

// testRequests sends requests as a command that may reach all of the ceiling: each
// must be refused for its own reason.
func (s *Server) testRequests(ctx context.Context) error {
	test := &Server{Ceiling: s.Ceiling, Limits: s.Limits}
	test.begin()
	lease, ticket, err := test.lease(ctx)
	if err != nil {
		return err
	}
	defer lease.Close()
	for _, c := range []struct {
		request string
		want    decision.Verdict
	}{
		{"CONNECT " + selfName + ":443 HTTP/1.1\r\n\r\n", decision.AboveCeiling},
		{"GET http://" + selfName + "/ HTTP/1.1\r\n\r\n", decision.AboveCeiling},
		{"CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n", decision.BadName},
		{"CONNECT " + selfName + "%00.example:443 HTTP/1.1\r\n\r\n", decision.BadName},
		{"GET http://" + selfName + "/ HTTP/1.1\r\nHost: other." + selfName + "\r\n\r\n", decision.BadRequest},
	} {
		conn, err := test.dialSelf(ctx, egresswire.Hello{Ticket: ticket})
		if err != nil {
			return err
		}
		io.WriteString(conn, c.request)
		conn.CloseWrite()
		answer, err := io.ReadAll(conn)
		conn.Close()
		if err != nil || !strings.Contains(string(answer), "\r\nX-Sallyport-Verdict: "+string(c.want)+"\r\n") {
			return fmt.Errorf("the request %.60q must be refused as %s, but is answered %.100q (%v)", c.request, c.want,
				answer, err)
		}
	}
	if _, _, err := test.lease(ctx, "private:"+selfName+":443"); err == nil {
		return errors.New("a caller may grant itself private: rules")
	}
	return nil
}

// lease opens one for a command with these rules; without any for all of the
// ceiling.
func (s *Server) lease(ctx context.Context, rules ...string) (*net.UnixConn, string, error) {
	if len(rules) == 0 {
		rules = []string{"*"}
	}
	conn, err := s.dialSelf(ctx, egresswire.Hello{Command: &egresswire.Command{Principal: "self-test", ID: "self-test",
		Rules: rules}})
	if err != nil {
		return nil, "", err
	}
	var reply egresswire.Reply
	if err = egresswire.Read(bufio.NewReader(conn), &reply); err == nil && reply.Error != "" {
		err = errors.New(reply.Error)
	}
	if err != nil {
		conn.Close()
	}
	return conn, reply.Ticket, err
}

// dialSelf is a proven connection to s, as its socket would hand it on.
func (s *Server) dialSelf(ctx context.Context, hello egresswire.Hello) (*net.UnixConn, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("a pair of sockets: %w", err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range pair {
		file := os.NewFile(uintptr(fd), "self-test")
		conn, e := net.FileConn(file)
		file.Close()
		if e != nil {
			return nil, fmt.Errorf("a pair of sockets: %w", e)
		}
		ends[i] = conn.(*net.UnixConn)
	}
	go func() {
		defer ends[1].Close()
		s.serve(ctx, ends[1])
	}()
	ends[0].SetDeadline(time.Now().Add(testBound))
	return ends[0], egresswire.Write(ends[0], hello)
}
