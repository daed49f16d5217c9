package wire_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
)

func TestParseRequest(t *testing.T) {
	for _, line := range []string{
		`{"verb":"policy","version":1}`, `{"verb":"status"}`, `{"verb":"attach","server":"s"}`, `{"verb":"stop","server":"s"}`,
		`{"verb":"ensure","server":"s","hash":"00"}`, `{"verb":"ensure","server":"s","hash":"00","env":{"A":""}}`,
	} {
		if _, err := wire.ParseRequest([]byte(line)); err != nil {
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
		`{"verb":"ensure","server":"s","hash":"00","env":{"A":"` + strings.Repeat("x", wire.MaxEnv) + `"}}`,
		`{"verb":"policy","version":1,"__proto__":{}}`, `{"verb":"policy","version":"1"}`,
	} {
		if q, err := wire.ParseRequest([]byte(line)); err == nil {
			t.Errorf("%.80s is accepted: %+v", line, q)
		}
	}
}

func TestFrames(t *testing.T) {
	var framed bytes.Buffer
	long := bytes.Repeat([]byte("x"), wire.MaxFrame)
	for kind, payload := range map[byte][]byte{wire.FrameStdout: long, wire.FrameStderr: {}, wire.FrameEnd: []byte("{}")} {
		framed.Reset()
		if err := wire.WriteFrame(&framed, kind, payload); err != nil {
			t.Fatal(err)
		}
		got, read, err := wire.ReadFrame(&framed, make([]byte, wire.MaxFrame))
		if err != nil || got != kind || !bytes.Equal(read, payload) {
			t.Errorf("frame %d came back as %d, %d bytes, %v", kind, got, len(read), err)
		}
	}
	if err := wire.WriteFrame(io.Discard, wire.FrameStdout, append(long, 'x')); err == nil {
		t.Error("a frame over the limit was written")
	}
	for framed, want := range map[string]error{
		"":                     io.EOF,
		"\x01\x00":             io.ErrUnexpectedEOF,
		"\x01\x00\x00\x05abc":  io.ErrUnexpectedEOF,
		"\x01\xff\xff\xff":     nil,
		"\x00\x00\x00\x00":     nil,
		"HTTP/1.1 400 Bad Req": nil,
	} {
		_, _, err := wire.ReadFrame(strings.NewReader(framed), make([]byte, wire.MaxFrame))
		if err == nil || (want != nil && !errors.Is(err, want)) {
			t.Errorf("%q: %v", framed, err)
		}
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"verb":"ensure","server":"s","hash":"00","env":{"A":""}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		q, err := wire.ParseRequest(line)
		if err == nil && (q.Verb == "" || (q.Server != "") != (q.Verb == wire.VerbEnsure || q.Verb == wire.VerbAttach || q.Verb == wire.VerbStop)) {
			t.Fatalf("%q became %+v", line, q)
		}
	})
}
