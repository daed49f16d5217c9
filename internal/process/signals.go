package process

import (
	"context"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

// Context ends with the first SIGINT, SIGTERM or SIGHUP; a SIGINT or SIGTERM more than
// a second later ends the process at once. Where SIGHUP is ignored at the start, as
// nohup does, it stays ignored.
func Context() context.Context {
	end := []os.Signal{os.Interrupt, unix.SIGTERM}
	if !signal.Ignored(unix.SIGHUP) {
		end = append(end, unix.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), end...)
	context.AfterFunc(ctx, func() {
		signal.Ignore(unix.SIGHUP)        // the shell and the kernel each send one when a terminal closes
		time.AfterFunc(time.Second, stop) // pkill signals this process and its parent, which passes it on (jail.Reexec)
	})
	return ctx
}
