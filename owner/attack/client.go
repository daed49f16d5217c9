package attack

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/owner/client"
)

// answerBound is how long one attempt may take.
const answerBound = 90 * time.Second

func (r *report) client(token string) *http.Client {
	return &http.Client{Transport: client.Bearer{Base: r.opt.base, Token: token,
		Next: client.Transport(r.opt.base, r.opt.insecure)}}
}

// tools is a session with the sandbox.
type tools struct{ session *mcp.ClientSession }

func (r *report) connect(ctx context.Context) (tools, error) {
	token, err := config.ReadToken(r.opt.tokenFile)
	if err != nil {
		return tools{}, fmt.Errorf("%w (looked for %s)", err, client.Here(r.opt.tokenFile))
	}
	transport := &mcp.StreamableClientTransport{Endpoint: r.opt.base.JoinPath("mcp").String(),
		HTTPClient: r.client(token), MaxRetries: -1}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "sallyport-attack", Version: "1"}, nil).Connect(ctx, transport,
		nil)
	if err != nil {
		return tools{}, fmt.Errorf("%s: %w", r.opt.base, err)
	}
	return tools{s}, nil
}

// call returns what a tool says, and whether it took the call as good.
func (t tools) call(ctx context.Context, name string, args map[string]any) (text string, ok bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	res, err := t.session.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return "", false, err
	}
	return client.Text(res), !res.IsError, nil
}

// run returns both streams of a command.
func (t tools) run(ctx context.Context, command string, seconds int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, answerBound)
	defer cancel()
	res, err := t.session.CallTool(ctx, &mcp.CallToolParams{Name: "run_command",
		Arguments: map[string]any{"command": command, "timeout_seconds": seconds}})
	if err != nil {
		return "", err
	}
	m, _ := res.StructuredContent.(map[string]any)
	out, _ := m["stdout"].(string)
	errs, _ := m["stderr"].(string)
	if m == nil {
		return "", fmt.Errorf("run_command gave no structured result")
	}
	return errs + "\n" + out, nil
}
