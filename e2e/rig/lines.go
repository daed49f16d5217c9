package rig

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"testing"
)

// Initialized is a result of "initialize" of a server with tools.
const Initialized = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"x","version":"1"}}`

// StartLines starts an MCP server that speaks lines over TCP, until the test's
// end; answer returns the result of each request. It returns the port.
func StartLines(t testing.TB, answer func(method string, params json.RawMessage) string) json.Number {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveLines(c, answer)
		}
	}()
	return json.Number(fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
}

func serveLines(c net.Conn, answer func(method string, params json.RawMessage) string) {
	defer c.Close()
	for in := bufio.NewScanner(c); in.Scan(); {
		var m struct {
			ID, Params json.RawMessage
			Method     string
		}
		if json.Unmarshal(in.Bytes(), &m) == nil && m.ID != nil {
			fmt.Fprintf(c, `{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", m.ID, answer(m.Method, m.Params))
		}
	}
}
