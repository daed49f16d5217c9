package nettest_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/sallyport-dev/sallyport/jail"
)

func python(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("SKIPPED, missing: python3")
	}
}

// greet answers every connection with words, and says who came.
func greet(words string) (func(net.Listener), *sync.WaitGroup) {
	var gone sync.WaitGroup
	return func(l net.Listener) {
		gone.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				io.WriteString(c, words)
				c.Close()
			}
		})
	}, &gone
}

const ask = `python3 -c 'import socket; s=socket.create_connection(("127.0.0.1",3128),5); print(s.recv(100).decode())'`

// A command reaches its own proxy, by the same address as every other, and
// only its own. The listener ends with it.
func TestEachCommandHasItsOwnProxy(t *testing.T) {
	python(t)
	j, _ := box(t, false)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			words := fmt.Sprint("proxy ", i)
			proxy, gone := greet(words)
			got, res := run(t, j, ask, proxy)
			if strings.TrimSpace(got) != words {
				t.Errorf("%s: %q %+v", words, got, res)
			}
			gone.Wait() // Accept has failed: the jail has closed it
		})
	}
	all.Wait()
	if got, _ := run(t, j, ask, nil); !strings.Contains(got, "refused") {
		t.Errorf("without a proxy: %q", got)
	}
}

// What a command listens on is its own: it reaches that, and nobody else does.
func TestOwnServersWork(t *testing.T) {
	python(t)
	j, _ := box(t, false)
	got, res := run(t, j, `python3 -c '
import socket, threading
l = socket.create_server(("127.0.0.1", 8080))
threading.Thread(target=lambda: l.accept()[0].sendall(b"hello"), daemon=True).start()
print(socket.create_connection(("localhost", 8080), 5).recv(10).decode())'`, nil)
	if strings.TrimSpace(got) != "hello" {
		t.Errorf("%q %+v", got, res)
	}
	host, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	twin, err := net.Dial("tcp", host.Addr().String())
	if err != nil {
		t.Fatal("the twin:", err)
	}
	twin.Close()
	connect := fmt.Sprintf(`python3 -c 'import socket; socket.create_connection(("127.0.0.1",%d),5)'`, host.Addr().(*net.TCPAddr).Port)
	if got, _ := run(t, j, connect, nil); !strings.Contains(got, "refused") {
		t.Errorf("a listener of this machine: %q", got)
	}
}

// attempts are Python expressions that would open a way out, each with what
// stops it. Here the filter stands behind the namespace: without it, the same
// expression meets only the namespace (see TestNamespaceAlone).
var attempts = []struct{ name, code, stopped string }{
	{"tcp to an address", `socket.create_connection(("192.0.2.1", 443), 5)`, "unreachable"},
	{"tcp6 to an address", `socket.create_connection(("2001:db8::1", 443), 5)`, "unreachable"},
	{"the bridge's gateway", `socket.create_connection(("172.17.0.1", 22), 5)`, "unreachable"},
	{"the proxy's port elsewhere", `socket.create_connection(("10.0.0.1", 3128), 5)`, "unreachable"},
	{"metadata", `socket.create_connection(("169.254.169.254", 80), 5)`, "unreachable"},
	{"udp", `socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53))`, "unreachable"},
	{"udp6", `socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b"x", ("2001:db8::1", 53))`, "unreachable"},
	{"multicast", `socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("224.0.0.251", 5353))`, "unreachable"},
	{"broadcast", `(lambda s: (s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1), s.sendto(b"x", ("255.255.255.255", 67))))(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))`, "unreachable"},
	{"mptcp", `socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262).connect(("192.0.2.1", 443))`, "unreachable|not supported"},
	{"sctp", `socket.socket(socket.AF_INET, socket.SOCK_STREAM, 132).connect(("192.0.2.1", 443))`, "unreachable|not supported"},
	{"fast open by sendto", `socket.socket().sendto(b"x", 0x20000000, ("192.0.2.1", 443))`, "unreachable"},
	{"fast open by sendmsg", `socket.socket().sendmsg([b"x"], [], 0x20000000, ("192.0.2.1", 443))`, "unreachable"},
	{"fast open by option", `(lambda s: (s.setsockopt(6, 30, 1), s.connect(("192.0.2.1", 443)), s.send(b"x")))(socket.socket())`, "unreachable"},
	{"raw", `socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)`, "not permitted"},
	{"packet", `socket.socket(socket.AF_PACKET, socket.SOCK_RAW)`, "not permitted"},
	{"netlink", `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)`, "not permitted"},
	{"vsock", `socket.socket(40, socket.SOCK_STREAM).connect((2, 22))`, "not permitted"},
	{"bluetooth", `socket.socket(31, socket.SOCK_RAW, 1)`, "not permitted"},
	{"a network namespace", `os.unshare(0x40000000) if hasattr(os, "unshare") else libc("unshare", 0x40000000)`, "not implemented|not permitted"},
	{"a user namespace", `libc("unshare", 0x10000000)`, "not implemented"},
	{"the server's namespace", `libc("setns", os.open("/proc/1/ns/net", os.O_RDONLY), 0x40000000)`, "denied|not implemented|not permitted"},
	{"io_uring", `libc("syscall", 425, 8, 0)`, "not implemented"},
	{"down with loopback", `__import__("fcntl").ioctl(socket.socket(), 0x8914, b"lo".ljust(16, b"\0") + b"\0" * 16)`, "not permitted"},
	{"a name", `socket.getaddrinfo("example.com", 443)`, "resolution|not known"},
}

const prelude = `
import socket, os, ctypes
def libc(name, *args):
    c = ctypes.CDLL(None, use_errno=True)
    if getattr(c, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
`

func TestNoWayOut(t *testing.T) {
	python(t)
	for _, container := range []bool{false, true} {
		j, _ := box(t, container)
		for _, a := range attempts {
			script := prelude + "try:\n    " + a.code + "\n    print('OPEN')\nexcept OSError as e:\n    print(str(e).lower())\n"
			got, res := run(t, j, "python3 - <<'END'\n"+script+"END", nil)
			stopped := false
			for _, word := range strings.Split(a.stopped, "|") {
				stopped = stopped || strings.Contains(got, word)
			}
			if !stopped {
				t.Errorf("container %v, %s: %q %+v", container, a.name, got, res)
			}
		}
	}
}

// A command has no capability in the server's namespace, and no descriptor of
// the server's.
func TestNoPrivileges(t *testing.T) {
	j, _ := box(t, false)
	got, _ := run(t, j, `grep -E '^Cap(Inh|Prm|Eff|Amb)|NoNewPrivs' /proc/self/status; ls /proc/self/fd | wc -l`, func(net.Listener) {})
	for _, line := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "\n4\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is not in %q", line, got)
		}
	}
}

// Network namespaces go with their commands: after many, a new one can still
// be had, and this process holds no more descriptors than before.
func TestNamespacesGoWithTheirCommands(t *testing.T) {
	j, _ := box(t, false)
	before := descriptors(t)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				proxy, gone := greet("x")
				if got, res := run(t, j, "echo ok", proxy); got != "ok\n" {
					t.Errorf("%q %+v", got, res)
				}
				gone.Wait()
			}
		})
	}
	all.Wait()
	if after := descriptors(t); after > before+4 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// The network is part of the full jail only.
func TestGroupIsRefused(t *testing.T) {
	if _, err := jail.New(jail.Config{Mode: jail.Group, Network: jail.Allowlist}); err == nil || !strings.Contains(err.Error(), "full") {
		t.Errorf("got %v", err)
	}
}
