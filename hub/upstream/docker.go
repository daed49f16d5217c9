package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
)

// Container is a server in a container of the policy proxy.
type Container struct {
	Socket, Server, Hash string
	Env                  map[string]string // expanded
	Log                  func(line string)
}

// ErrDaemon is a proxy socket that belongs to the daemon itself.
var ErrDaemon = errors.New("MCP_PROXY_SOCKET answers as a Docker daemon: the hub must never hold that socket; mount " +
	"the policy proxy's instead")

// Docker creates the entry's container and attaches to it. The container ends
// with the connection.
func Docker(c Container) Dial {
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	return func(ctx context.Context) (Conn, error) {
		p, err := dialProxy(ctx, c.Socket)
		if err != nil {
			return nil, err
		}
		defer context.AfterFunc(ctx, func() { p.Close() })()
		for _, q := range []wire.Request{{Verb: wire.VerbPolicy, Version: wire.Version},
			{Verb: wire.VerbEnsure, Server: c.Server, Hash: c.Hash, Env: c.Env},
			{Verb: wire.VerbAttach, Server: c.Server}} {
			if err := p.ask(q); err != nil {
				p.Close()
				return nil, err
			}
		}
		return p.attached(c.Log), nil
	}
}

// proxy is a dialogue with the policy proxy.
type proxy struct {
	*net.UnixConn
	in *bufio.Reader
}

func dialProxy(ctx context.Context, socket string) (*proxy, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("the policy proxy cannot be reached: %w; is it running, and does its HUB_UID name "+
			"this process?", err)
	}
	return &proxy{conn.(*net.UnixConn), bufio.NewReaderSize(conn, wire.MaxLine)}, nil
}

// ask sends one request and reads its reply.
func (p *proxy) ask(q wire.Request) error {
	line, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := p.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("the policy proxy hung up: %w", err)
	}
	answer, err := p.in.ReadSlice('\n')
	if strings.HasPrefix(string(answer), "HTTP/") {
		return ErrDaemon
	}
	var reply wire.Reply
	if err == nil {
		err = json.Unmarshal(answer, &reply)
	}
	switch {
	case err != nil:
		return fmt.Errorf("the policy proxy hung up: %w", err)
	case reply.OK:
		return nil
	case reply.Code == wire.CodeStale, reply.Code == wire.CodeBusy:
		return &Wait{"the policy proxy: " + reply.Error}
	}
	return errors.New("the policy proxy: " + reply.Error)
}

// attached speaks with the server inside.
func (p *proxy) attached(log func(string)) Conn {
	out, in := io.Pipe()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		in.CloseWithError(p.frames(in, logLines(log)))
	}()
	return newLines(out, p, func() error {
		out.CloseWithError(ErrClosed)
		p.CloseWrite()
		select {
		case <-gone:
		case <-time.After(stopGrace):
		}
		err := p.Close()
		<-gone
		return err
	})
}

// frames sorts what the proxy sends until the end, which it returns.
func (p *proxy) frames(stdout io.Writer, stderr io.WriteCloser) error {
	defer stderr.Close()
	buffer := make([]byte, wire.MaxFrame)
	for {
		kind, payload, err := wire.ReadFrame(p.in, buffer)
		if err != nil {
			return fmt.Errorf("the policy proxy hung up: %w", err)
		}
		switch kind {
		case wire.FrameStdout:
			if _, err := stdout.Write(payload); err != nil {
				stdout = io.Discard // the hub closes; the end is still to come
			}
		case wire.FrameStderr:
			stderr.Write(payload)
		case wire.FrameEnd:
			return ending(payload)
		}
	}
}

func ending(payload []byte) error {
	var end wire.End
	if err := json.Unmarshal(payload, &end); err != nil {
		return fmt.Errorf("the policy proxy: %w", err)
	}
	switch end.Reason {
	case wire.EndSecrets, wire.EndConfig:
		return fmt.Errorf("%w (%s)", ErrRenewed, end.Reason)
	case wire.EndExited:
		return fmt.Errorf("the container exited with code %d", end.ExitCode)
	}
	return fmt.Errorf("the container ended: %s", end.Reason)
}
