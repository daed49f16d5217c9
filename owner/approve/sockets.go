// Package approve holds the owner's verbs for running servers: what waits and
// runs, approve, deny, output, stop, pause, resume, sessions, servers. Each
// talks to the owner's sockets of the sandbox and the hub.
package approve

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/owner/client"
)

// Sockets says which servers to ask, and with which key.
type Sockets struct {
	Paths   []string // none: MCP_OWNER_SOCKET, else .sallyport/run/*/owner.sock
	KeyFile string   // "": MCP_OWNER_KEY_FILE, else .sallyport/owner/key
	named   bool     // Paths were given
}

// Flags adds -socket, which may be repeated, and -key-file.
func (s *Sockets) Flags(fs *flag.FlagSet) {
	fs.Func("socket", "", func(v string) error { s.Paths = append(s.Paths, v); return nil })
	fs.StringVar(&s.KeyFile, "key-file", "", "")
}

// Fill puts in what was not given.
func (s *Sockets) Fill() error {
	if v := os.Getenv("MCP_OWNER_SOCKET"); len(s.Paths) == 0 && v != "" {
		s.Paths = []string{v}
	}
	if s.named = len(s.Paths) > 0; !s.named {
		s.Paths, _ = filepath.Glob(".sallyport/run/*/owner.sock")
	}
	if s.KeyFile == "" {
		s.KeyFile = os.Getenv("MCP_OWNER_KEY_FILE")
	}
	if s.KeyFile == "" {
		s.KeyFile = ".sallyport/owner/key"
	}
	if len(s.Paths) == 0 {
		return nothing()
	}
	return nil
}

// Connect dials one socket.
func (s *Sockets) Connect(ctx context.Context, path string) (*ownersock.Client, error) {
	return ownersock.Dial(ctx, path, s.KeyFile)
}

// nothing means that no server answers, and says where one was looked for.
func nothing() error {
	if err := client.Barred(); err != nil {
		return err
	}
	//nolint:staticcheck // a sentence for a person
	return fmt.Errorf("Nothing is running here. Start it: make run or make up. (From another folder: -socket and "+
		"-key-file, or MCP_OWNER_SOCKET and MCP_OWNER_KEY_FILE. Looked for %s.)",
		client.Here(".sallyport/run/*/owner.sock"))
}

// each runs do on every socket that answers. A server that is not running is
// said and passed over; it is an error if none answers, or if one refuses the
// key.
func (s *Sockets) each(ctx context.Context, stderr io.Writer,
	do func(process string, c *ownersock.Client) error) error {
	answered, refused := false, error(nil)
	var down []error
	for _, path := range s.Paths {
		c, err := s.Connect(ctx, path)
		if err != nil {
			if errors.Is(err, ownersock.ErrDown) {
				down = append(down, err)
			} else {
				refused = errors.Join(refused, err)
			}
			continue
		}
		var status ownersock.Status
		err = c.Do(ownersock.Request{Op: ownersock.OpStatus}, &status)
		if err == nil {
			answered = true
			err = do(status.Process, c)
		}
		if err = errors.Join(err, c.Close()); err != nil {
			return err
		}
	}
	for _, err := range down {
		if answered {
			fmt.Fprintln(stderr, "sallyport:", err)
		}
	}
	switch {
	case answered || refused != nil:
		return refused
	case s.named:
		return errors.Join(down...)
	}
	return nothing()
}

// errNotDone means that no server did what was asked; what it said is the text.
var errNotDone = errors.New("nothing was done")

// first sends r to one server after the other until one has done it.
func (s *Sockets) first(ctx context.Context, stderr io.Writer, r ownersock.Request) error {
	var said []string
	done := false
	err := s.each(ctx, stderr, func(process string, c *ownersock.Client) error {
		if done {
			return nil
		}
		var refused ownersock.RefusedError
		err := c.Do(r, nil)
		if errors.As(err, &refused) {
			said = append(said, process+": "+err.Error())
			return nil
		}
		done = err == nil
		return err
	})
	if err == nil && !done {
		return fmt.Errorf("%w: %s", errNotDone, strings.Join(said, "; "))
	}
	return err
}

// listed is one element of a -json list: the object, and whose it is.
type listed map[string]any

// gather joins the lists of all servers that know the operation.
func gather[T any](ctx context.Context, s *Sockets, stderr io.Writer, op string) (all []T, json []listed, err error) {
	json = []listed{}
	err = s.each(ctx, stderr, func(process string, c *ownersock.Client) error {
		var list []T
		var refused ownersock.RefusedError
		if err := c.Do(ownersock.Request{Op: op}, &list); errors.As(err, &refused) {
			return nil // a sandbox has no servers
		} else if err != nil {
			return err
		}
		for _, v := range list {
			all = append(all, v)
			json = append(json, element(process, v))
		}
		return nil
	})
	return all, json, err
}

func element(process string, v any) listed {
	out := listed{}
	raw, _ := json.Marshal(v)
	_ = json.Unmarshal(raw, &out)
	out["process"] = process
	return out
}
