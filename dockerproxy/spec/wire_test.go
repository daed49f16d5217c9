package spec_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/dockerproxy/spec"
)

func TestParseRequest(t *testing.T) {
	for _, line := range []string{
		`{"verb":"policy","version":1}`, `{"verb":"status"}`, `{"verb":"attach","server":"s"}`, `{"verb":"stop","server":"s"}`,
		`{"verb":"ensure","server":"s","hash":"00"}`, `{"verb":"ensure","server":"s","hash":"00","env":{"A":""}}`,
	} {
		if _, err := spec.ParseRequest([]byte(line)); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	for _, line := range []string{
		``, `{}`, `[]`, `null`, `GET /_ping HTTP/1.1`, `{"verb":"policy"}`, `{"verb":"exec","server":"s"}`,
		`{"Verb":"status"}`, `{"verb":"status","ſerver":"s"}`, `{"verb":"status","server":"s"}`, `{"verb":"stop"}`,
		`{"verb":"stop","server":"s","server":"t"}`, `{"verb":"stop","server":"s"}{}`, `{"verb":"stop","server":"../s"}`,
		`{"verb":"stop","server":"s\n"}`, `{"verb":"stop","server":"s","env":{}}`, `{"verb":"stop","server":5}`,
		`{"verb":"ensure","server":"s"}`, `{"verb":"ensure","server":"s","hash":"00","HostConfig":{"Privileged":true}}`,
		`{"verb":"ensure","server":"s","hash":"00","env":{"A":"\u0000"}}`, `{"verb":"ensure","server":"s","hash":"00","env":{"A":1}}`,
		`{"verb":"ensure","server":"s","hash":"00","env":{"A":"1","A":"2"}}`, "{\"verb\":\"stop\",\"server\":\"\xff\"}",
		`{"verb":"ensure","server":"s","hash":"00","env":{"A":"` + strings.Repeat("x", spec.MaxEnv) + `"}}`,
		`{"verb":"policy","version":1,"__proto__":{}}`, `{"verb":"policy","version":"1"}`,
	} {
		if q, err := spec.ParseRequest([]byte(line)); err == nil {
			t.Errorf("%.80s is accepted: %+v", line, q)
		}
	}
}

func TestFrames(t *testing.T) {
	var wire bytes.Buffer
	long := bytes.Repeat([]byte("x"), spec.MaxFrame)
	for kind, payload := range map[byte][]byte{spec.FrameStdout: long, spec.FrameStderr: {}, spec.FrameEnd: []byte("{}")} {
		wire.Reset()
		if err := spec.WriteFrame(&wire, kind, payload); err != nil {
			t.Fatal(err)
		}
		got, read, err := spec.ReadFrame(&wire, make([]byte, spec.MaxFrame))
		if err != nil || got != kind || !bytes.Equal(read, payload) {
			t.Errorf("frame %d came back as %d, %d bytes, %v", kind, got, len(read), err)
		}
	}
	if err := spec.WriteFrame(io.Discard, spec.FrameStdout, append(long, 'x')); err == nil {
		t.Error("a frame over the limit was written")
	}
	for wire, want := range map[string]error{
		"":                     io.EOF,
		"\x01\x00":             io.ErrUnexpectedEOF,
		"\x01\x00\x00\x05abc":  io.ErrUnexpectedEOF,
		"\x01\xff\xff\xff":     nil,
		"\x00\x00\x00\x00":     nil,
		"HTTP/1.1 400 Bad Req": nil,
	} {
		_, _, err := spec.ReadFrame(strings.NewReader(wire), make([]byte, spec.MaxFrame))
		if err == nil || (want != nil && !errors.Is(err, want)) {
			t.Errorf("%q: %v", wire, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"mcpServers": {"s": {"type": "docker", "image": "x", "volumes": ["/srv:/x"], "ports": ["1:2"], "tmpfs": ["/a:exec"]}}}`))
	f.Add([]byte(`{"mcpServers": {"s": {"command": "x", "args": ["${A:-b}"]}, "t": {"type": "http", "url": "https://x"}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := spec.Parse(data)
		if err != nil {
			return
		}
		for name, e := range c.Servers {
			if c.Broken[name] != nil {
				t.Fatalf("%s is both good and broken", name)
			}
			if e.Type == spec.Docker {
				checkBody(t, e)
			}
		}
	})
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"verb":"ensure","server":"s","hash":"00","env":{"A":""}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		q, err := spec.ParseRequest(line)
		if err == nil && (q.Verb == "" || (q.Server != "") != (q.Verb == spec.VerbEnsure || q.Verb == spec.VerbAttach || q.Verb == spec.VerbStop)) {
			t.Fatalf("%q became %+v", line, q)
		}
	})
}
