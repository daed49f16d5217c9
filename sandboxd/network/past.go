package network

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// past counts what a command sent past its proxy. The kernel counts it in the
// command's own network, where nothing but the proxy can be reached: what found no
// route (connections and DNS queries to any other address), and UDP that found no port
// (queries to a resolver on loopback, as systemd and Docker have one).
type past struct{ v4, v6 *os.File }

// openPast opens the counters of the calling thread's network. Where there are
// none, nothing is counted.
func openPast() past {
	v4, _ := os.Open("/proc/thread-self/net/snmp")
	v6, _ := os.Open("/proc/thread-self/net/snmp6") // none without IPv6
	return past{v4, v6}
}

// count reads the counters.
func (p past) count() (n int) {
	ip, names := text(p.v4), []string(nil)
	for line := range strings.Lines(ip) { // a line of names, then one of values
		fields := strings.Fields(line)
		if len(fields) == len(names) && len(fields) > 0 && fields[0] == names[0] {
			n += value(names, fields, "Ip:", "OutNoRoutes") + value(names, fields, "Udp:", "NoPorts")
		}
		names = fields
	}
	for line := range strings.Lines(text(p.v6)) {
		if f := strings.Fields(line); len(f) == 2 && (f[0] == "Ip6OutNoRoutes" || f[0] == "Udp6NoPorts") {
			n += atoi(f[1])
		}
	}
	return n
}

func value(names, values []string, group, name string) int {
	for i := range names {
		if names[0] == group && names[i] == name {
			return atoi(values[i])
		}
	}
	return 0
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // what is no number counts nothing
	return n
}

func text(f *os.File) string {
	if f == nil {
		return ""
	}
	raw, _ := io.ReadAll(io.NewSectionReader(f, 0, 64<<10))
	return string(raw)
}

func (p past) close() {
	p.v4.Close() // of nil it is an error, and nothing else
	p.v6.Close()
}

// pastNotice tells a model why a program found no network.
func pastNotice(n int) string {
	host, port, _ := strings.Cut(Address, ":")
	return fmt.Sprintf("%d connections or DNS queries went past the proxy and failed: only the proxy in the "+
		"environment "+
		"(https_proxy=http://%s) leads to the allowed hosts, and a program of this command does not use it. Name it in the "+
		"program's own settings (Java: -Dhttps.proxyHost=%s -Dhttps.proxyPort=%s; Maven: settings.xml); Node's fetch "+
		"needs "+
		"Node 22.21 or 24.5 (or use curl); ssh and UDP do not work (clone over https).", n, Address, host, port)
}
