package chain_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

const (
	hello   = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	meta    = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},`
	endless = `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{%s"name":"run_command","arguments":{"timeout_seconds":120,"command":"sleep 600 & echo $! > %[2]s.new; mv %[2]s.new %[2]s; sleep 600"}}}`
)

// A client that goes away ends its command, through either proxy: Traefik's
// fast one notices when a write fails, which is the second one after the end.
// While a call runs a silent stream gets a comment every 5 seconds.
func TestVanishedClientEndsItsCommand(t *testing.T) {
	for _, fast := range []bool{false, true} {
		t.Run(fmt.Sprintf("fastProxy=%v", fast), func(t *testing.T) {
			c := rig.StartChain(t, rig.ChainOptions{FastProxy: fast})
			for name, visit := range map[string]func(visitor){"sse": visitor.sse, "sessions": visitor.sessions, "stateless": visitor.stateless} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					ctx, vanish := context.WithCancel(t.Context())
					defer vanish()
					visit(visitor{t, ctx, c, name})
					pid := started(t, filepath.Join(c.Sandbox.Workspace, name))
					if err := syscall.Kill(pid, 0); err != nil {
						t.Fatalf("the command is not there while its client is: %v", err)
					}
					vanish()
					rig.Until(t, "the end of the command", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, c.Sandbox.Process)
				})
			}
		})
	}
}

// visitor is a client that starts a command without an end.
type visitor struct {
	t    *testing.T
	ctx  context.Context // its life
	c    *rig.Chain
	file string // gets the pid of the command's child
}

func (v visitor) sse() {
	resp := v.send("GET", "/sse", "", nil)
	endpoint := ""
	for lines := bufio.NewScanner(resp.Body); endpoint == "" && lines.Scan(); {
		endpoint, _ = strings.CutPrefix(lines.Text(), "data: /mcp-sandbox")
		if !strings.HasPrefix(lines.Text(), "data: ") {
			endpoint = ""
		}
	}
	v.send("POST", endpoint, hello, nil)
	v.send("POST", endpoint, fmt.Sprintf(endless, "", v.file), nil)
}

func (v visitor) sessions() {
	h := http.Header{"Mcp-Session-Id": v.send("POST", "/mcp", hello, nil).Header["Mcp-Session-Id"]}
	go v.send("POST", "/mcp", fmt.Sprintf(endless, "", v.file), h)
}

func (v visitor) stateless() {
	h := http.Header{"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {"tools/call"}, "Mcp-Name": {"run_command"}}
	go v.send("POST", "/mcp", fmt.Sprintf(endless, meta, v.file), h)
}

// send returns the answer; its body ends with the visitor.
func (v visitor) send(method, path, body string, h http.Header) *http.Response {
	req, err := http.NewRequestWithContext(v.ctx, method, v.c.Base+path, strings.NewReader(body))
	if err != nil {
		v.t.Error(err)
		return &http.Response{}
	}
	req.Header = h.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	if method == "POST" {
		req.Header.Set("Content-Type", "application/json")
	} else {
		req.Body = nil
	}
	resp, err := rig.HTTPClient(v.c.Token).Do(req)
	if err != nil {
		if v.ctx.Err() == nil {
			v.t.Error(err)
		}
		return &http.Response{Body: http.NoBody}
	}
	if resp.StatusCode >= 300 {
		v.t.Errorf("%s %s: %s", method, path, resp.Status)
	}
	return resp
}

// started waits for the pid in the file.
func started(t *testing.T, file string) (pid int) {
	t.Helper()
	rig.Until(t, "the command's start", func() bool {
		data, err := os.ReadFile(file)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil && pid > 1
	})
	return pid
}
