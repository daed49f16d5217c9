package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
)

// lastWords is how long a server may run after its stdin was closed, and a
// hub may take to read what is left.
const lastWords = 10 * time.Second

// attach turns the connection into the server's streams. It always ends the
// connection.
func (l *link) attach(q *wire.Request) bool {
	s := l.lease
	if s == nil || s.entry.Name != q.Server {
		return l.refuse(q, coded{wire.CodeDenied, fmt.Errorf("this connection has not ensured %s", q.Server)})
	}
	conn, out, exit, err := l.start(s)
	if err != nil {
		l.refuse(q, s.failure(s.redact(err)))
		return false
	}
	l.mu.Lock()
	s.stream = true
	l.mu.Unlock()
	defer conn.Close()
	defer exit.Close()
	if l.reply(wire.Reply{OK: true}) {
		l.pump(s, conn, out, exit)
	}
	return false
}

// start attaches first, so that no output is missed, then starts.
func (l *link) start(s *lease) (*net.UnixConn, *bufio.Reader, io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(s.ctx, callTime)
	defer cancel()
	c, err := l.inspect(ctx, s.id, s.entry.Name)
	if err == nil && c.State.Status != "created" {
		err = fmt.Errorf("the container is %s, not new", c.State.Status)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	conn, out, err := l.docker.attach(ctx, c.ID)
	if err != nil {
		return nil, nil, nil, err
	}
	// The wait outlives this call: it ends with the container.
	exit, err := l.docker.open(context.WithoutCancel(ctx), "POST", "/containers/"+c.ID+"/wait",
		url.Values{"condition": {"removed"}}, nil)
	if err == nil {
		if err = l.docker.call(ctx, "POST", "/containers/"+c.ID+"/start", nil, nil, nil); err != nil {
			exit.Close()
		}
	}
	if err != nil {
		conn.Close()
		return nil, nil, nil, err
	}
	return conn, out, exit, nil
}

// attach takes over a connection of the daemon. Nothing of the hub's is sent
// before the daemon has switched.
func (d *daemon) attach(ctx context.Context, id string) (*net.UnixConn, *bufio.Reader, error) {
	raw, err := d.dial(ctx)
	if err != nil {
		return nil, nil, err
	}
	conn := raw.(*net.UnixConn)
	conn.SetDeadline(time.Now().Add(callTime))
	in := bufio.NewReader(conn)
	q, err := http.NewRequest("POST", "http://docker/v"+d.api()+"/containers/"+id+"/attach?stream=1&stdin=1&stdout=1&stderr=1", nil)
	if err == nil {
		q.Header.Set("Connection", "Upgrade")
		q.Header.Set("Upgrade", "tcp")
		err = q.Write(conn)
	}
	var answer *http.Response
	if err == nil {
		answer, err = http.ReadResponse(in, q)
	}
	if err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
		err = newRefusal(answer)
	}
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("attaching: %w", err)
	}
	conn.SetDeadline(time.Time{})
	return conn, in, nil
}

// pump copies until the server is gone, then says why and frees the claim.
func (l *link) pump(s *lease, conn *net.UnixConn, out *bufio.Reader, exit io.ReadCloser) {
	name := s.entry.Name
	l.log.Info("started", "server", name, "container", s.id)
	go func() {
		io.Copy(conn, l.in) // ends with the hub's half, or with conn
		s.closing.Store(true)
		conn.CloseWrite()
		select {
		case <-s.ctx.Done():
		case <-time.After(lastWords):
			s.cancel(ended(wire.EndStopped))
		}
	}()
	defer context.AfterFunc(s.ctx, func() { // makes the copy below end
		l.conn.SetWriteDeadline(time.Now().Add(lastWords))
		conn.CloseWrite() // the end that MCP servers know; many ignore SIGTERM as process 1
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		l.stop(ctx, s.id, name)
		conn.SetReadDeadline(time.Now().Add(lastWords))
	})()
	err := demux(l.conn, out)
	if err != nil { // the hub is gone, or the daemon's stream is: not the server
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		l.stop(ctx, s.id, name)
	}
	end := wire.End{Reason: wire.EndExited, ExitCode: exitCode(exit)}
	var cause ended
	if errors.As(context.Cause(s.ctx), &cause) {
		end.Reason = string(cause)
	} else if s.ctx.Err() != nil {
		end.Reason = wire.EndStopped // the proxy itself ends
	} else if err != nil || end.ExitCode < 0 {
		end.Reason = wire.EndLost
	}
	l.log.Info("ended", "server", name, "reason", end.Reason, "exitCode", end.ExitCode)
	l.lease = nil
	l.end(s)
	payload, _ := json.Marshal(end)
	l.conn.SetWriteDeadline(time.Now().Add(lastWords))
	wire.WriteFrame(l.conn, wire.FrameEnd, payload)
}

// demux turns the daemon's frames (kind, three zeros, length in four bytes)
// into ours, in pieces of bounded size whatever length they claim.
func demux(to io.Writer, from io.Reader) error {
	var head [8]byte
	piece := make([]byte, wire.MaxFrame)
	for {
		if _, err := io.ReadFull(from, head[:]); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if (head[0] != wire.FrameStdout && head[0] != wire.FrameStderr) || head[1]|head[2]|head[3] != 0 {
			return errors.New("the daemon's stream is out of step")
		}
		for left := binary.BigEndian.Uint32(head[4:]); left > 0; {
			n, err := from.Read(piece[:min(int64(left), int64(len(piece)))])
			if n > 0 {
				if err := wire.WriteFrame(to, head[0], piece[:n]); err != nil {
					return err
				}
				left -= uint32(n)
			}
			if err != nil && left > 0 {
				return io.ErrUnexpectedEOF
			}
		}
	}
}

// exitCode waits for the daemon's word; -1 where it does not come.
func exitCode(exit io.ReadCloser) int {
	defer time.AfterFunc(lastWords, func() { exit.Close() }).Stop()
	result := struct{ StatusCode *int }{}
	if json.NewDecoder(io.LimitReader(exit, 64<<10)).Decode(&result) != nil || result.StatusCode == nil {
		return -1
	}
	return *result.StatusCode
}
