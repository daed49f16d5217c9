package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
)

// Child is a server that the hub starts itself, inside a jail.
type Child struct {
	Jail *jail.Jail
	Args []string // Args[0] is the absolute path of the program
	Env  []string // its whole environment
	Dir  string   // its private directory
	Log  func(line string)
}

// Stdio starts a child per connection and speaks over its standard streams.
func Stdio(c Child) Dial {
	return func(ctx context.Context) (Conn, error) {
		dir, err := os.Open(c.Dir)
		if err != nil {
			return nil, err
		}
		defer dir.Close()
		stdin, feed, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		defer stdin.Close()
		out, in := io.Pipe()
		stderr := logLines(c.Log)
		p, err := c.Jail.Start(context.WithoutCancel(ctx), jail.Command{
			Args: c.Args, Env: c.Env, Dir: dir, Stdin: stdin, Stdout: in, Stderr: stderr,
		})
		if err != nil {
			feed.Close()
			stderr.Close()
			return nil, fmt.Errorf("starting %s: %w", c.Args[0], err)
		}
		return running(p, feed, in, out, stderr), nil
	}
}

// running makes a connection of a started child.
func running(p *jail.Process, feed *os.File, in *io.PipeWriter, out *io.PipeReader, stderr io.Closer) Conn {
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer stderr.Close()
		in.CloseWithError(ended(p.Wait()))
	}()
	return newLines(out, feed, func() error {
		feed.Close()
		out.CloseWithError(ErrClosed)
		select {
		case <-gone:
		case <-time.After(stopGrace):
			p.Stop()
			<-gone
		}
		return nil
	})
}

// ended describes how a child ended.
func ended(r jail.Result) error {
	switch {
	case r.OOMKilled != nil && *r.OOMKilled:
		return ErrMemory
	case r.Signal != "":
		return errors.New("the server was ended by " + r.Signal)
	}
	return fmt.Errorf("the server exited with code %d", r.ExitCode)
}

// logLines is a writer that hands whole lines to log, each cut to 4 KiB, as many as
// Chatter lets pass.
func logLines(log func(string)) io.WriteCloser {
	r, w := io.Pipe()
	go func() {
		in := bufio.NewReaderSize(r, 4<<10)
		var chatter Chatter
		for {
			line, long, err := in.ReadLine()
			if err != nil {
				return
			}
			said := chatter.Say(func(omitted int) {
				if omitted > 0 {
					log(fmt.Sprintf("(%d lines left out: more than %d in a second)", omitted, MaxLogged))
				}
				log(string(line))
			})
			for long && err == nil {
				_, long, err = in.ReadLine()
			}
			if !said {
				chatter.leaveOut(in)
			}
		}
	}()
	return w
}
