package identity_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/identity"
	"github.com/sallyport-dev/sallyport/internal/process"
)

func TestGranted(t *testing.T) {
	for _, c := range []struct {
		tools, ask []string
		tool       string
		granted    bool
		asks       bool
	}{
		{[]string{"*"}, nil, "read_file", true, false},
		{[]string{"read_file"}, nil, "read_file", true, false},
		{[]string{"read_file"}, nil, "write_file", false, false},
		{[]string{"files/read"}, nil, "files/read", false, false},
		{[]string{"files/*"}, nil, "read", false, false},
		{[]string{"*"}, nil, "files/read", false, false},
		{nil, nil, "read_file", false, false},
		{nil, nil, "", false, false},
		{[]string{"*"}, []string{"read_file"}, "read_file", true, true},
		{[]string{"*"}, []string{"read_file"}, "write_file", true, false},
		{[]string{"*"}, []string{"*"}, "write_file", true, true},
	} {
		id := identity.Identity{Tools: c.tools, Ask: c.ask}
		if got := id.Granted(c.tool); got != c.granted {
			t.Errorf("tools %q grant %q: %v", c.tools, c.tool, got)
		}
		if got := id.Asks(c.tool); got != c.asks {
			t.Errorf("ask %q holds %q: %v", c.ask, c.tool, got)
		}
	}
}

// Whatever stands in the headers: with any of them there the caller is never
// the local one, and nothing is granted that is not written there.
func FuzzParseIdentity(f *testing.F) {
	f.Add("token:poke", "read_file,write_file", "read_file")
	f.Add("oauth:a@b|c", "*", "*")
	f.Add("local", "", "")
	f.Add("token:", ",", " ")
	f.Add("token:a\nX: y", "a,,b", "\x00")
	f.Fuzz(func(t *testing.T, principal, tools, ask string) {
		h := http.Header{identity.PrincipalHeader: {principal}, identity.ToolsHeader: {tools}, identity.AskHeader: {ask}}
		id, err := identity.Parse(h, true)
		if err != nil {
			if id.Principal != "" || id.Granted("read_file") {
				t.Errorf("an error with the identity %+v", id)
			}
			return
		}
		if id.Principal != principal || !strings.Contains(principal, ":") {
			t.Errorf("%q became %q", principal, id.Principal)
		}
		for _, tool := range id.Tools {
			if !strings.Contains(tools, tool) || strings.ContainsAny(tool, ", \n") {
				t.Errorf("%q grants %q", tools, tool)
			}
		}
		if id.Granted("read_file") && !slices.Contains(id.Tools, "read_file") && !slices.Contains(id.Tools, "*") {
			t.Errorf("%q grants read_file", tools)
		}
		for _, missing := range []string{identity.PrincipalHeader, identity.ToolsHeader} {
			half := h.Clone()
			half.Del(missing)
			if _, err := identity.Parse(half, false); err == nil {
				t.Errorf("accepted without %s", missing)
			}
		}
	})
}

// A person at a terminal reads text, everything else gets JSON.
func TestLogger(t *testing.T) {
	if _, ok := process.NewLogger(&bytes.Buffer{}).Handler().(*slog.JSONHandler); !ok {
		t.Error("no JSON for what is no file")
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if _, ok := process.NewLogger(null).Handler().(*slog.JSONHandler); !ok {
		t.Error("no JSON for a file")
	}
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("missing: a pseudo terminal: %v", err)
		}
		t.Skipf("SKIPPED, missing: a pseudo terminal: %v", err)
	}
	defer terminal.Close()
	if _, ok := process.NewLogger(terminal).Handler().(*slog.TextHandler); !ok {
		t.Error("no text for a terminal")
	}
}
