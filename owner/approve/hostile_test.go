package approve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/keysocket"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

// compromised adds a server that answers each operation with a line of its own.
func compromised(t *testing.T, answer func(op string) string) {
	t.Helper()
	k, err := keysocket.ReadKey(".sallyport/owner/key")
	if err == nil {
		err = os.MkdirAll(".sallyport/run/hub", 0o700)
	}
	l, err2 := keysocket.Listen(".sallyport/run/hub/owner.sock", 0o600)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		done <- (&keysocket.Server{Sum: k.Sum(), Serve: func(_ context.Context, c *net.UnixConn) {
			for lines := bufio.NewScanner(c); lines.Scan(); {
				var r ownersock.Request
				_ = json.Unmarshal(lines.Bytes(), &r)
				fmt.Fprintln(c, answer(r.Op))
			}
		}}).Run(ctx, l)
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// Whatever a compromised server calls itself and what it has, its words show themselves and
// begin no line of their own.
func TestServersDriveNoTerminal(t *testing.T) {
	rig(t)
	hostile := "x\x1b[2J\u202e\u05d0\u009b1A\nforged"
	text, _ := json.Marshal(hostile)
	one := map[string]string{
		ownersock.OpStatus:   `{"process":TEXT}`,
		ownersock.OpPending:  `[{"id":TEXT,"principal":TEXT,"server":TEXT,"tool":TEXT,"arguments":TEXT,"preview":"p"}]`,
		ownersock.OpRunning:  `[{"id":TEXT,"state":TEXT,"principal":TEXT,"server":TEXT,"tool":TEXT,"command":TEXT}]`,
		ownersock.OpSessions: `[{"name":TEXT,"principal":TEXT}]`,
		ownersock.OpServers:  `[{"name":TEXT,"type":TEXT,"state":TEXT,"reason":TEXT,"withheld":["a"]}]`,
		ownersock.OpOutput:   `{"stdout":TEXT,"stderr":TEXT}`,
		ownersock.OpPause:    `null`,
	}
	compromised(t, func(op string) string {
		if one[op] == "" {
			return fmt.Sprintf(`{"error":%s}`, text)
		}
		return `{"result":` + strings.ReplaceAll(one[op], "TEXT", string(text)) + `}`
	})
	for name, v := range map[string]verb{"approve": approve.Approve, "ps": approve.PS, "sessions": approve.Sessions,
		"servers": approve.Servers, "pause": approve.Pause, "output": approve.Output, "stop": approve.Stop} {
		args := map[string][]string{"output": {"x"}, "stop": {"x"}}[name]
		_, out, errs := run(v, args...)
		for line := range strings.SplitSeq(out+errs, "\n") {
			if strings.ContainsFunc(line, func(r rune) bool { return !terminal.Visible(r) }) || strings.HasPrefix(line, "forged") && name != "output" {
				t.Errorf("%s: %q", name, line)
			}
		}
		if !strings.Contains(out+errs, `\u{1b}[2J\u{202e}\u{5d0}`) {
			t.Errorf("%s does not show what the server said: %q %q", name, out, errs)
		}
	}
}
