package upstream

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Unix dials a server that listens on a unix socket. The socket itself, and no link on
// the way to it: its folder is the server's, and a link there could lead the hub to
// another server, to the policy proxy or to the owner's socket.
func Unix(path string) Dial {
	return func(ctx context.Context) (Conn, error) {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		switch {
		case err == unix.ELOOP:
			return nil, fmt.Errorf("dial unix %s: a folder above it is a link; write the path without links", path)
		case err != nil:
			return nil, fmt.Errorf("dial unix %s: %w", path, err)
		}
		defer unix.Close(fd)
		var file unix.Stat_t
		if err := unix.Fstat(fd, &file); err != nil {
			return nil, fmt.Errorf("dial unix %s: %w", path, err)
		}
		switch file.Mode & unix.S_IFMT {
		case unix.S_IFSOCK:
			return socket("unix", fmt.Sprint("/proc/self/fd/", fd))(ctx)
		case unix.S_IFLNK:
			return nil, fmt.Errorf("dial unix %s: it is a link; name the socket itself", path)
		}
		return nil, fmt.Errorf("dial unix %s: it is no socket", path)
	}
}

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
