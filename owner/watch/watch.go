// Package watch is "sallyport watch": a terminal page of what runs and waits,
// and, with -notify, a program of the owner's that is run for it.
package watch

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

const usage = `Usage: sallyport watch            a page of what runs and waits: ? shows its keys
       sallyport watch -notify    runs the program that SALLYPORT_NOTIFY names for what happens, the event as JSON
                                  on its standard input
Flags: -socket PATH  of a server, may be repeated (default: MCP_OWNER_SOCKET, else .sallyport/run/*/owner.sock)
       -key-file FILE  its key (default: MCP_OWNER_KEY_FILE, else .sallyport/owner/key)
Exit code: 0 at its end, 2 wrong usage, or no terminal.
`

// Main is "sallyport watch".
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var s approve.Sockets
	fs := flag.NewFlagSet("watch", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	s.Flags(fs)
	program := fs.Bool("notify", false, "")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return 0
	}
	if err == nil && fs.NArg() > 0 {
		err = fmt.Errorf("it takes flags only\n%s", usage)
	}
	if err == nil {
		err = s.Fill()
	}
	if err != nil {
		fmt.Fprintln(stderr, "sallyport watch:", err)
		return 2
	}
	if *program {
		name, err := exec.LookPath(os.Getenv("SALLYPORT_NOTIFY"))
		if err != nil {
			fmt.Fprintln(stderr, "sallyport watch: SALLYPORT_NOTIFY must name a program that can be run:",
				terminal.Escape(err.Error()))
			return 2
		}
		return notify(ctx, s, name, stdout, stderr)
	}
	if err := page(ctx, s); err != nil {
		fmt.Fprintln(stderr, "sallyport watch:", terminal.Escape(err.Error()))
		return 2
	}
	return 0
}

// pollEvery is how often the page asks the servers.
const pollEvery = 500 * time.Millisecond

// page shows the page until q or ctx.
func page(ctx context.Context, s approve.Sockets) error {
	tty, err := openTerminal()
	if err != nil {
		return err
	}
	defer tty.restore()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	keys := tty.keys(ctx)
	seen, acts := poll(ctx, s)
	past := records(ctx)
	m := model{}
	for {
		m.width, m.height = tty.size()
		if err := tty.draw(m.view()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case v := <-seen:
			m.take(v)
		case list := <-past:
			m.remember(list)
		case k, ok := <-keys:
			if !ok {
				return nil
			}
			act := m.press(k)
			if act.quit {
				return nil
			}
			if act.request.Op != "" {
				acts <- act
			}
		}
	}
}
