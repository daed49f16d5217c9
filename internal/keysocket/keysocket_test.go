package keysocket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

const (
	right = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	wrong = "10112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
)

func key(t *testing.T, digits string) keysocket.Key {
	t.Helper()
	k, err := keysocket.ParseKey([]byte(digits))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// echo starts a server that sends back what it gets, and counts whom it serves.
func echo(t *testing.T, most int) (path string, served *atomic.Int64) {
	t.Helper()
	path, served = filepath.Join(t.TempDir(), "s.sock"), new(atomic.Int64)
	l, err := keysocket.Listen(path, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &keysocket.Server{Sum: key(t, right).Sum(), MaxConnections: most, Serve: func(_ context.Context, c *net.UnixConn) {
		served.Add(1)
		io.Copy(c, c)
	}}
	done := make(chan error)
	go func() { done <- s.Run(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error("Run:", err)
		}
	})
	return path, served
}

func TestRightKeyIsServed(t *testing.T) {
	path, _ := echo(t, 0)
	c, err := keysocket.Dial(t.Context(), path, key(t, right))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "hello")
	c.CloseWrite()
	if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// Whoever sends anything else reaches nobody. The twin is the test above.
func TestOtherFirstLinesAreRefused(t *testing.T) {
	path, served := echo(t, 0)
	if _, err := keysocket.Dial(t.Context(), path, key(t, wrong)); !errors.Is(err, keysocket.ErrRefused) {
		t.Errorf("wrong key: %v", err)
	}
	for _, line := range []string{
		"", "\n", right, right[:63] + "\n", right + "\r\n", strings.ToUpper(right) + "\n", " " + right + "\n", wrong + "\n" + right + "\n",
		"GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 80), strings.Repeat("\x00", 65), right + " \n",
	} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, line)
		c.(*net.UnixConn).CloseWrite()
		got, _ := io.ReadAll(c)
		c.Close()
		if bytes.HasPrefix(got, []byte("ok")) {
			t.Errorf("%q was accepted", line)
		}
	}
	if n := served.Load(); n != 0 {
		t.Errorf("%d were served", n)
	}
}

// Bytes sent together with the key are the caller's, all of them.
func TestBytesBehindTheKeyArriveWhole(t *testing.T) {
	path, _ := echo(t, 0)
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, right+"\n"+"first")
	c.(*net.UnixConn).CloseWrite()
	if got, _ := io.ReadAll(c); string(got) != "ok\nfirst" {
		t.Errorf("got %q", got)
	}
}

// Clients without the key keep out nobody, however many and slow they are, and though
// they come again as often as they are closed.
func TestManyWithoutTheKey(t *testing.T) {
	path, _ := echo(t, 0)
	over := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var held []net.Conn
			for n := 0; ; n++ {
				select {
				case <-over:
					for _, c := range held {
						c.Close()
					}
					return
				default:
				}
				c, err := net.Dial("unix", path)
				if err != nil { // the queue is full: the server's turn, which is not what is tried here
					time.Sleep(time.Millisecond)
					continue
				}
				held = append(held, c)
				if len(held) > 300 {
					held[0].Close()
					held = held[1:]
				}
			}
		})
	}
	defer func() { close(over); all.Wait() }()
	begin := time.Now()
	for range 5 {
		served(t, path)
	}
	t.Logf("5 clients with the key are served after %v", time.Since(begin))
}

// Those that only stay take no time at all of those with the key.
func TestIdleWithoutTheKey(t *testing.T) {
	path, _ := echo(t, 0)
	for range 600 {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	c, err := keysocket.Dial(t.Context(), path, key(t, right))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// served wants a client with the key to be served, at the latest after some tries.
func served(t *testing.T, path string) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for {
		c, err := keysocket.Dial(t.Context(), path, key(t, right))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("never served:", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	path, _ := echo(t, 2)
	var held []net.Conn
	for range 2 {
		c, err := keysocket.Dial(t.Context(), path, key(t, right))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	if c, err := keysocket.Dial(t.Context(), path, key(t, right)); err == nil {
		c.Close()
		t.Fatal("the third of two was served")
	}
	held[0].Close()
	for { // its place is free as soon as its Serve has returned
		c, err := keysocket.Dial(t.Context(), path, key(t, right))
		if err == nil {
			c.Close()
			return
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := net.Listen("unix", path) // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if _, err := keysocket.Dial(ctx, path, key(t, right)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestListen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.sock")
	l, err := keysocket.Listen(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := keysocket.Listen(path, 0o600); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("a second server: %v", err)
	}
	l.SetUnlinkOnClose(false) // what a crash leaves
	l.Close()
	again, err := keysocket.Listen(path, 0o600)
	if err != nil {
		t.Fatal("after a crash:", err)
	}
	again.Close()
	os.WriteFile(path, nil, 0o600)
	if _, err := keysocket.Listen(path, 0o600); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := keysocket.Listen(path+"2", 0o666); err == nil {
		t.Error("a socket for everybody")
	}
}

func TestReadKey(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"plain": {right, 0o600, ""}, "newline": {right + "\n", 0o600, ""}, "group": {right + "\n", 0o640, ""},
		"two newlines": {right + "\n\n", 0o600, "hex digits"}, "crlf": {right + "\r\n", 0o600, "hex digits"},
		"short": {right[1:], 0o600, "hex digits"}, "long": {right + "0", 0o600, "hex digits"}, "empty": {"", 0o600, "hex digits"},
		"owner-key": {"missing", 0o600, `"sallyport token key /etc/sallyport/owner-key"`}, "nearly": {"missing\n", 0o600, "hex digits"},
		"upper": {strings.ToUpper(right), 0o600, "hex digits"}, "not hex": {"g" + right[1:], 0o600, "hex digits"},
		"others read": {right, 0o644, "chmod"}, "group writes": {right, 0o660, "chmod"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), c.mode); err != nil {
			t.Fatal(err)
		}
		os.Chmod(path, c.mode)
		k, err := keysocket.ReadKey(path)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && len(c.text) > 20 && strings.Contains(err.Error(), c.text[1:20]) {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
		if err == nil && strings.Contains(fmt.Sprintf("%v %+v %#v %s", k, k, k, k), right[:8]) {
			t.Errorf("%s: the key prints itself", name)
		}
	}
	os.Symlink(filepath.Join(dir, "plain"), filepath.Join(dir, "link"))
	for _, name := range []string{"link", ".", "missing"} {
		if _, err := keysocket.ReadKey(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was read", name)
		}
	}
}
