// Package watch is "sallyport watch": a terminal page of what runs and waits,
// and, with -notify, a program of the owner's that is run for it.
package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

const usage = `usage: sallyport watch            a page of what runs and waits: ? shows its keys
       sallyport watch -notify    runs the program that SALLYPORT_NOTIFY names for what happens, the event as JSON
                                  on its standard input
Flags: -socket PATH  of a server, may be repeated (default: MCP_OWNER_SOCKET, else .sallyport/run/*/owner.sock)
       -key-file FILE  its key (default: MCP_OWNER_KEY_FILE, else .sallyport/owner/key)
Exit code: 0 at its end, 2 wrong usage, or no terminal.
`

// Main is "sallyport watch".
var Main = cli.Tool("sallyport watch", usage, parse, run)

type options struct {
	approve.Sockets
	program bool // of the owner's, run for what happens
}

func parse(args []string) (o options, err error) {
	f := cli.Flags("sallyport watch")
	o.Sockets.Flags(f)
	f.BoolVar(&o.program, "notify", false, "")
	if err = f.Parse(args); err == nil && f.NArg() > 0 {
		err = errors.New("it takes flags only")
	}
	return o, err
}

func run(ctx context.Context, o options, stdout, stderr io.Writer) (int, error) {
	s := o.Sockets
	if err := s.Fill(); err != nil {
		return 2, err
	}
	if o.program {
		name, err := exec.LookPath(os.Getenv("SALLYPORT_NOTIFY"))
		if err != nil {
			return 2, fmt.Errorf("SALLYPORT_NOTIFY must name a program that can be run: %s",
				terminal.Escape(err.Error()))
		}
		return notify(ctx, s, name, stdout, stderr), nil
	}
	if err := page(ctx, s); err != nil {
		return 2, errors.New(terminal.Escape(err.Error()))
	}
	return 0, nil
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
				select {
				case acts <- act:
				case <-ctx.Done(): // and nobody takes it any more
				}
			}
		}
	}
}
