package accept_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/owner/accept"
)

// Through the hub's socket the same is shown, and exactly that is accepted.
func TestThroughTheSocket(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("MCP_STATE_DIR", "")
	os.MkdirAll(".sallyport/run/hub", 0o700)
	os.MkdirAll(".sallyport/owner", 0o700)
	os.WriteFile(".sallyport/owner/key", []byte(strings.Repeat("0a", 32)), 0o600)
	s, err := ownersock.Listen(".sallyport/run/hub/owner.sock", ".sallyport/owner/key", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	accepted := ""
	s.Desk, s.Process = desk.New(nil, nil), "sallyport-hub"
	s.Extra = map[string]ownersock.Handler{
		ownersock.OpWithheld: func(r ownersock.Request) (any, error) {
			return ownersock.Withheld{Server: r.Name, Sum: "abc", Changes: []ownersock.Change{{Tool: "t", Old: json.RawMessage(`{"name":"t"}`), New: json.RawMessage(`{"name":"t","title":"T"}`)}}}, nil
		},
		ownersock.OpAccept: func(r ownersock.Request) (any, error) {
			if r.Sum != "abc" {
				return nil, errors.New("not what is withheld")
			}
			accepted = r.Name
			return nil, nil
		},
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"notes"}, 1, `"title": "T"`},
		{[]string{"notes", "other"}, 1, "nothing was accepted"},
		{[]string{"notes", "abc"}, 0, `accepted notes/"t"`},
	} {
		var out strings.Builder
		if code := accept.Main(t.Context(), c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("%v: exit code %d\n%s", c.args, code, out.String())
		}
	}
	if accepted != "notes" {
		t.Errorf("accepted %q", accepted)
	}
}

// In a folder without an installation it says where it looked, and which one lies above.
func TestWrongFolder(t *testing.T) {
	t.Setenv("MCP_STATE_DIR", "")
	t.Setenv("MCP_OWNER_SOCKET", "")
	above := t.TempDir()
	if err := errors.Join(os.Mkdir(above+"/.sallyport", 0o700), os.Mkdir(above+"/sub", 0o700)); err != nil {
		t.Fatal(err)
	}
	for dir, hint := range map[string]string{t.TempDir(): "Start it: make run", above + "/sub": "if you mean the installation in " + above} {
		t.Chdir(dir)
		var out, errs strings.Builder
		code := accept.Main(t.Context(), []string{"notes"}, &out, &errs)
		if code != 1 || !strings.Contains(errs.String(), hint) || !strings.Contains(errs.String(), "Looked for "+dir) {
			t.Errorf("exit code %d, %s", code, errs.String())
		}
	}
}
