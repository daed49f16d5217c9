package egresstest

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"sync"
)

// DNS is an authoritative server for every name, on one UDP socket.
type DNS struct {
	mu      sync.Mutex
	names   map[string][]string
	queries []string
	turn    map[string]int
	socket  net.PacketConn
}

// ServeDNS answers on 127.0.0.1:53 until Close.
func ServeDNS() (*DNS, error) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:53")
	if err != nil {
		return nil, err
	}
	d := &DNS{names: map[string][]string{}, turn: map[string]int{}, socket: socket}
	go d.loop()
	return d, nil
}

// Close ends the server.
func (d *DNS) Close() error { return d.socket.Close() }

// Set gives name its records: addresses, or "CNAME other.example". A record
// "then" divides answers that are given in turn, one per query of a family, so
// that a name can change its mind.
func (d *DNS) Set(name string, records ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.names[name] = records
	for _, kind := range []rune{typeA, typeCNAME, typeAAAA} {
		delete(d.turn, name+string(kind))
	}
}

// Queries are the names that were asked for since the last call.
func (d *DNS) Queries() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queries
	d.queries = nil
	return q
}

func (d *DNS) loop() {
	buf := make([]byte, 1500)
	for {
		n, from, err := d.socket.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := d.answer(buf[:n]); answer != nil {
			d.socket.WriteTo(answer, from)
		}
	}
}

const (
	typeA, typeCNAME, typeAAAA = 1, 5, 28
)

// answer builds the response to one question (RFC 1035 section 4.1).
func (d *DNS) answer(q []byte) []byte {
	name, end := question(q)
	if end == 0 {
		return nil
	}
	kind := binary.BigEndian.Uint16(q[end:])
	records, known := d.look(name, kind)
	out := append([]byte{}, q[:2]...)
	flags := uint16(0x8580) // an authoritative answer
	if !known {
		flags |= 3 // NXDOMAIN
	}
	out = binary.BigEndian.AppendUint16(out, flags)
	out = append(out, 0, 1, 0, byte(len(records)), 0, 0, 0, 0)
	out = append(out, q[12:end+4]...)
	for _, r := range records {
		out = append(out, r...)
	}
	return out
}

func question(q []byte) (name string, end int) {
	if len(q) < 17 {
		return "", 0
	}
	at := 12
	var labels []string
	for at < len(q) && q[at] != 0 {
		n := int(q[at])
		if at+1+n >= len(q) {
			return "", 0
		}
		labels = append(labels, string(q[at+1:at+1+n]))
		at += 1 + n
	}
	if at+5 > len(q) {
		return "", 0
	}
	return strings.ToLower(strings.Join(labels, ".")), at + 1
}

// look returns the records of one kind in wire format, following CNAMEs.
func (d *DNS) look(name string, kind uint16) (records [][]byte, known bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queries = append(d.queries, name)
	for range 8 {
		texts, ok := d.names[name]
		if !ok {
			return records, known
		}
		known = true
		next := ""
		for _, text := range d.now(name, kind, texts) {
			if to, ok := strings.CutPrefix(text, "CNAME "); ok {
				records, next = append(records, record(name, typeCNAME, wire(to))), to
				continue
			}
			a := netip.MustParseAddr(text)
			if a.Is4() == (kind == typeA) && (kind == typeA || kind == typeAAAA) {
				records = append(records, record(name, kind, a.AsSlice()))
			}
		}
		if name = next; name == "" {
			return records, known
		}
	}
	return records, known
}

// now picks the answer whose turn it is.
func (d *DNS) now(name string, kind uint16, texts []string) []string {
	answers := [][]string{nil}
	for _, text := range texts {
		if text == "then" {
			answers = append(answers, nil)
			continue
		}
		answers[len(answers)-1] = append(answers[len(answers)-1], text)
	}
	key := name + string(rune(kind))
	i := min(d.turn[key], len(answers)-1)
	d.turn[key]++
	return answers[i]
}

func record(name string, kind uint16, data []byte) []byte {
	out := wire(name)
	out = binary.BigEndian.AppendUint16(out, kind)
	out = append(out, 0, 1, 0, 0, 0, 0)
	out = binary.BigEndian.AppendUint16(out, uint16(len(data)))
	return append(out, data...)
}

func wire(name string) (out []byte) {
	for label := range strings.SplitSeq(name, ".") {
		out = append(append(out, byte(len(label))), label...)
	}
	return append(out, 0)
}
