package upstream

import (
	"context"
	"net"
	"strconv"
	"time"
)

// Unix dials a server that listens on a unix socket.
func Unix(path string) Dial { return socket("unix", path) }

// TCP dials a server that listens on a TCP port.
func TCP(host string, port int) Dial {
	return socket("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
}

func socket(network, address string) Dial {
	return func(ctx context.Context) (Conn, error) {
		d := net.Dialer{Timeout: 10 * time.Second}
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return newLines(c, c, c.Close), nil
	}
}
