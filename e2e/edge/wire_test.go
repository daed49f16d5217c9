package edge

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// wire is a request as it stands on the wire: no library may tidy it up.
type wire struct {
	method, target string
	header         [][2]string
	body           string
	trailer        [][2]string // sent after a chunked body
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	body   string
}

// dial connects to an entry point, given by its base URL.
func dial(t *testing.T, base string) net.Conn {
	t.Helper()
	conn, err := net.DialTimeout("tcp", strings.TrimPrefix(base, "http://"), rig.Deadline)
	if err != nil {
		t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(rig.Deadline))
	return conn
}

// http1 sends the request over HTTP/1.1.
func (w wire) http1(t *testing.T, base string) answer {
	t.Helper()
	conn := dial(t, base)
	defer conn.Close()
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: node.example\r\n", w.method, w.target)
	for _, h := range w.header {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	switch {
	case w.trailer != nil:
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n", len(w.body), w.body)
		for _, h := range w.trailer {
			fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
		}
		b.WriteString("\r\n")
	case w.body != "":
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", len(w.body), w.body)
	default:
		b.WriteString("\r\n")
	}
	go conn.Write(b.Bytes()) // an answer may come before the whole body is sent
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: w.method})
	if err != nil {
		t.Fatalf("%s %q: %v", w.method, w.target, err)
	}
	body, _ := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// h2c sends the request over HTTP/2 with prior knowledge, frame by frame.
func (w wire) h2c(t *testing.T, base string) answer {
	t.Helper()
	conn := dial(t, base)
	defer conn.Close()
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	f.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	err := f.WriteSettings()
	if err == nil {
		fields := append([][2]string{{":method", w.method}, {":scheme", "http"}, {":authority", "node.example"}, {":path", w.target}}, w.header...)
		err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: w.body == "", BlockFragment: block(fields)})
	}
	if err == nil && w.body != "" {
		err = f.WriteData(1, w.trailer == nil, []byte(w.body))
	}
	if err == nil && w.trailer != nil {
		err = f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true, EndStream: true, BlockFragment: block(w.trailer)})
	}
	if err != nil {
		t.Fatal(err)
	}
	return readFrames(t, f)
}

func block(fields [][2]string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for _, h := range fields {
		enc.WriteField(hpack.HeaderField{Name: strings.ToLower(h[0]), Value: h[1]})
	}
	return b.Bytes()
}

// readFrames reads until the stream ends. A stream that Traefik resets counts as
// status 0: it has not passed.
func readFrames(t *testing.T, f *http2.Framer) answer {
	t.Helper()
	a := answer{header: http.Header{}}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return a // Traefik closed the connection
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				f.WriteSettingsAck()
			}
		case *http2.MetaHeadersFrame:
			for _, field := range frame.Fields {
				if field.Name == ":status" {
					a.status, _ = strconv.Atoi(field.Value)
				}
				a.header.Add(field.Name, field.Value)
			}
			if frame.StreamEnded() {
				return a
			}
		case *http2.DataFrame:
			a.body += string(frame.Data())
			if frame.StreamEnded() {
				return a
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return a
		}
	}
}
