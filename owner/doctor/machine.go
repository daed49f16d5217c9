package doctor

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sallyport-dev/sallyport/owner/client"
	"golang.org/x/sys/unix"
)

// machine looks at the kernel, where sandboxd runs on this one.
func (w *walk) machine() {
	if !client.Loopback(w.base) {
		w.unseen("kernel", "the sandbox is on another machine, or behind a public address")
		return
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return
	}
	release := unix.ByteSliceToString(name.Release[:])
	lsm, err := os.ReadFile("/sys/kernel/security/lsm")
	modules := strings.TrimSpace(string(lsm))
	switch {
	case !atLeast(release, 6, 12, 0):
		w.found("kernel", "kernel-too-old", "Linux %s", release)
	case err == nil && !slices.Contains(strings.Split(modules, ","), "landlock"):
		w.found("kernel", "kernel-too-old", "Linux %s, started without landlock (%s)", release, modules)
	default:
		w.ok("kernel", "Linux %s", release)
	}
}

// atLeast compares the leading numbers of a version such as v3.7.13 or
// 6.12.9-amd64. A version without numbers is not.
func atLeast(version string, want ...int) bool {
	var got [3]int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.%d", &got[0], &got[1], &got[2]); n < 2 {
		return false
	}
	return slices.Compare(got[:], want) >= 0
}

// network lets a command try to reach a listener of ours on each address of
// this machine. That it is refused is shown by the silence of that listener.
func (w *walk) network(s *mcp.ClientSession) {
	const boundary = "network"
	if !client.Loopback(w.base) || w.opt.inside {
		w.unseen(boundary, "only from the machine that the sandbox runs on")
		return
	}
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		w.unseen(boundary, err.Error())
		return
	}
	defer l.Close()
	var hits atomic.Int32
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	try := []string{fmt.Sprintf("127.0.0.1:%d", port)}
	for _, a := range addresses() {
		if a.Is4() {
			try = append(try, fmt.Sprintf("%s:%d", a, port))
		}
	}
	// Whatever the image has can knock: bash, git or curl.
	script := ""
	for _, a := range try {
		host, p, _ := net.SplitHostPort(a)
		script += fmt.Sprintf("timeout 2 bash -c ': </dev/tcp/%s/%s' & timeout 2 git ls-remote http://%s/ & timeout 2 curl -s http://%s/ & ", host, p, a, a)
	}
	if _, err := w.use(s, "run_command", map[string]any{"command": script + "wait; true"}); err != nil {
		w.unseen(boundary, "the command that knocks did not run")
		return
	}
	if hits.Load() == 0 {
		w.ok(boundary, "a command could not reach a listener on this machine's %d addresses", len(try))
		return
	}
	w.found(boundary, "network-open", "a command reached this machine; listening for anyone here: %s",
		strings.Join(listeners(port), ", "))
}

// addresses are this machine's addresses other than loopback and link-local.
func addresses() []netip.Addr {
	var all []netip.Addr
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			all = append(all, p.Addr())
		}
	}
	return all
}

// listeners are the TCP ports bound to all addresses, without the one given.
func listeners(without int) []string {
	var ports []string
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			field := strings.Fields(lines.Text())
			if len(field) < 4 || field[3] != "0A" {
				continue
			}
			addr, port, _ := strings.Cut(field[1], ":")
			raw, err := hex.DecodeString(port)
			if err != nil || strings.Trim(addr, "0") != "" {
				continue
			}
			if p := binary.BigEndian.Uint16(raw); int(p) != without && !slices.Contains(ports, fmt.Sprint(p)) {
				ports = append(ports, fmt.Sprint(p))
			}
		}
	}
	return ports
}
