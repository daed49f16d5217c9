package upstream

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
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
		out, stdout, err := os.Pipe()
		if err != nil {
			feed.Close()
			return nil, err
		}
		defer stdout.Close()
		stderr := logLines(c.Log)
		p, err := c.Jail.Start(context.WithoutCancel(ctx), jail.Command{
			Args: c.Args, Env: c.Env, Dir: dir, Stdin: stdin, Stdout: stdout, Stderr: stderr,
		})
		if err != nil {
			feed.Close()
			out.Close()
			stderr.Close()
			return nil, fmt.Errorf("starting %s: %w", c.Args[0], err)
		}
		return running(p, feed, out, stderr), nil
	}
}

// running makes a connection of a started child.
func running(p *jail.Process, feed, out *os.File, stderr io.Closer) Conn {
	told := &said{out: out, gone: make(chan struct{})}
	go func() {
		defer close(told.gone)
		defer stderr.Close()
		told.why = ended(p.Wait())
		out.SetReadDeadline(time.Now().Add(lastWords))
	}()
	return newLines(told, feed, func() error {
		told.over.Store(true)
		feed.Close()
		go io.Copy(io.Discard, out) // a child that cannot write cannot end either
		select {
		case <-told.gone:
		case <-time.After(stopGrace):
			p.Stop()
			<-told.gone
		}
		return out.Close()
	})
}

// said is what a child writes, and after that why it ended.
type said struct {
	out  *os.File
	over atomic.Bool // nobody listens any more
	late int         // bytes that were read after the bound
	gone chan struct{}
	why  error // once gone is closed
}

// Read implements io.Reader.
func (s *said) Read(p []byte) (int, error) {
	n, err := s.out.Read(p)
	if os.IsTimeout(err) && s.late < jail.MaxPipe {
		n, _ = jail.Rest{File: s.out}.Read(p)
		s.late += n
	}
	switch {
	case s.over.Load():
		return 0, ErrClosed
	case n == 0 && err != nil:
		<-s.gone
		return 0, s.why
	}
	return n, nil
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
