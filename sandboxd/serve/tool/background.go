package tool

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The bounds of background commands.
const (
	defaultLifetime = 3600  // seconds
	maxLifetime     = 86400 // seconds
	maxRunning      = 8     // of one caller
	maxKept         = 64    // of all callers, running or ended; each holds two output limits
)

// table holds the background commands. A handle is minted here and found only
// by the caller whose it is.
type table struct {
	mu   sync.Mutex
	list []*job // oldest first
}

// add starts a command for owner, unless there are too many, and gives it a
// handle. The oldest command that has ended makes room. The table is locked
// meanwhile, so that no two starts share the last place.
func (t *table) add(owner string, start func() (*job, error)) (*job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	running, ended := 0, -1
	for i, j := range t.list {
		switch {
		case !j.running() && ended < 0:
			ended = i
		case j.running() && j.owner == owner:
			running++
		}
	}
	full := len(t.list) >= maxKept
	if running >= maxRunning {
		return nil, fmt.Errorf("%d commands of yours already run in the background, which is the limit: stop one with stop_command%s", running, t.handles(owner))
	}
	if full && ended < 0 {
		return nil, errors.New("too many background commands run: try again later")
	}
	j, err := start()
	if err != nil {
		return nil, err
	}
	if full {
		t.list = slices.Delete(t.list, ended, ended+1)
	}
	j.handle, j.owner = rand.Text(), owner
	t.list = append(t.list, j)
	return j, nil
}

// remove forgets a command whose handle nobody was told.
func (t *table) remove(j *job) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = slices.DeleteFunc(t.list, func(other *job) bool { return other == j })
}

func (t *table) find(handle, owner string) (*job, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, j := range t.list {
		if j.handle == handle && j.owner == owner {
			return j, nil
		}
	}
	return nil, fmt.Errorf("there is no background command with this handle%s", t.handles(owner))
}

// handles lists what a caller may have lost sight of. t is locked.
func (t *table) handles(owner string) string {
	var b strings.Builder
	for _, j := range t.list {
		if j.owner == owner {
			how := "ended"
			if j.running() {
				how = "running"
			}
			fmt.Fprintf(&b, "\n%s (%s): %.80q", j.handle, how, j.command)
		}
	}
	if b.Len() == 0 {
		return "; none of yours is known (they end with the server)"
	}
	return "; yours are:" + b.String()
}

func (s *Set) owner(ctx context.Context) string {
	if s.cfg.Principal == nil {
		return ""
	}
	return s.cfg.Principal(ctx)
}

type startIn struct {
	Command  string `json:"command"`
	Workdir  string `json:"workdir"`
	Lifetime *int   `json:"lifetime_seconds"`
}

type startOut struct {
	common
	Handle string `json:"handle" jsonschema:"what command_output and stop_command ask for"`
}

func (s *Set) addStartCommand(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name: "start_command",
		Description: "Start a shell command (/bin/sh -lc) in the workspace and leave it running in the background, also when the connection is lost. " +
			"Read what it writes with command_output, end it with stop_command." + s.network(),
		Annotations: hints("Start a command", false, true, false, true),
		InputSchema: arguments(
			need("command", "string", "the command line for /bin/sh"),
			may("workdir", "string", "directory to start in, relative to the workspace (default: the workspace)"),
			may("lifetime_seconds", "integer", fmt.Sprintf("seconds after which it is ended, 1 to %d (default %d)", maxLifetime, defaultLifetime)),
		),
	}, s.startCommand)
}

func (s *Set) startCommand(ctx context.Context, _ *mcp.CallToolRequest, in startIn) (*startOut, error) {
	seconds, err := within("lifetime_seconds", in.Lifetime, defaultLifetime, 1, maxLifetime)
	if err != nil {
		return nil, err
	}
	j, err := s.launchBehind(ctx, in.Command, in.Workdir, time.Duration(seconds)*time.Second)
	if err != nil {
		return nil, err
	}
	return &startOut{Handle: j.handle}, nil
}

// launchBehind starts a command that outlives the call.
func (s *Set) launchBehind(ctx context.Context, command, workdir string, limit time.Duration) (*job, error) {
	return s.background.add(s.owner(ctx), func() (*job, error) {
		return s.launch(context.Background(), command, workdir, limit)
	})
}
