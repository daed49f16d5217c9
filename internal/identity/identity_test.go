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
		{[]string{"user%2Fupdate"}, nil, "user/update", true, false},
		{[]string{"user%2fupdate"}, nil, "user%2fupdate", false, false},
		{[]string{"Create%20Share", "%C3%BCbung"}, []string{"%c3%bcbung"}, "übung", true, true},
		{[]string{"%2A"}, nil, "read_file", false, false},
		{[]string{"%2A"}, nil, "*", true, false},
		{[]string{"%zz"}, nil, "%zz", false, false},
		{[]string{"%zz"}, nil, "", false, false},
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

func TestGrantedOnAHub(t *testing.T) {
	for _, c := range []struct {
		tools, ask     []string
		server, tool   string
		granted, asks  bool
		reached, whole bool
	}{
		{[]string{"git/log"}, nil, "git", "log", true, false, true, false},
		{[]string{"git/log"}, nil, "git", "push", false, false, true, false},
		{[]string{"git/log"}, nil, "git2", "log", false, false, false, false},
		{[]string{"git/*"}, []string{"git/push"}, "git", "push", true, true, true, true},
		{[]string{"git/*"}, []string{"git/push"}, "git", "log", true, false, true, true},
		{[]string{"git/*"}, nil, "g", "it/log", false, false, false, false},
		{[]string{"*"}, []string{"*"}, "git", "log", true, true, true, true},
		{[]string{"log", "git"}, nil, "git", "log", false, false, false, false},
		{[]string{"git/user%2Fupdate"}, nil, "git", "user/update", true, false, true, false},
		{[]string{"git/%2A"}, nil, "git", "log", false, false, true, false},
		{[]string{"git/%2A"}, nil, "git", "*", true, false, true, false},
		{[]string{"git/log"}, nil, "git", "*", false, false, true, false},
		{[]string{"git/"}, nil, "git", "", false, false, false, false},
		{[]string{"/log"}, nil, "", "log", false, false, true, false},
		{nil, nil, "git", "log", false, false, false, false},
	} {
		id := identity.Identity{Tools: c.tools, Ask: c.ask}
		if got := id.GrantedOn(c.server, c.tool); got != c.granted {
			t.Errorf("tools %q grant %s/%s: %v", c.tools, c.server, c.tool, got)
		}
		if got := id.AsksOn(c.server, c.tool); got != c.asks {
			t.Errorf("ask %q holds %s/%s: %v", c.ask, c.server, c.tool, got)
		}
		if reached, whole := id.Reaches(c.server), id.GrantedWhole(c.server); reached != c.reached || whole != c.whole {
			t.Errorf("tools %q: %s is reached %v, whole %v", c.tools, c.server, reached, whole)
		}
	}
}

// Each header is there as often as it must be, in its form, or nobody is let in.
func TestParse(t *testing.T) {
	const p, tools, ask, egress, request = identity.PrincipalHeader, identity.ToolsHeader, identity.AskHeader,
		identity.EgressHeader, identity.RequestHeader
	good := http.Header{p: {"oauth:owner+mcp@n.example#Ab12"}, tools: {"read_file,user%2Fupdate"}, ask: {"read_file"},
		egress: {"a.example,*.b.example:8443"}, request: {"0e8f105568c41040-n8"}}
	id, err := identity.Parse(good, true)
	if err != nil || id.Principal != "oauth:owner+mcp@n.example#Ab12" || id.Request != "0e8f105568c41040-n8" ||
		!slices.Equal(id.Egress, []string{"a.example", "*.b.example:8443"}) || !id.Asks("read_file") {
		t.Fatalf("%+v, %v", id, err)
	}
	for name, values := range map[string][][]string{
		p: {nil, {}, {"oauth:a", "oauth:a"}, {""}, {"local"}, {"oauth:"}, {"oauth:a#"}, {"oauth:#b"},
			{"oauth:a#b#c"}, {"oauth:a b"}, {"oauth:a,b"}, {"OAUTH:a"}, {"oauth:" + strings.Repeat("a", 129)},
			{"token:é"}, {"token:a\n"}},
		tools:   {nil, {}, {"a", "b"}, {"a,,b"}, {","}, {"a b"}, {"ü"}},
		ask:     {{"a", "b"}, {""}, {"a,"}},
		egress:  {{"a.example", "b.example"}, {""}, {"a b"}},
		request: {{"a", "b"}, {""}, {"a b"}, {strings.Repeat("a", 129)}},
	} {
		for _, v := range values {
			h := good.Clone()
			h[name] = v
			if v == nil {
				delete(h, name)
			}
			if id, err := identity.Parse(h, false); err == nil {
				t.Errorf("%s %q: %+v", name, v, id)
			}
		}
	}
	for _, name := range []string{ask, egress, request} {
		h := good.Clone()
		delete(h, name)
		if _, err := identity.Parse(h, true); err != nil {
			t.Errorf("without %s: %v", name, err)
		}
		if _, err := identity.Parse(http.Header{name: good[name]}, false); err == nil {
			t.Errorf("%s alone is accepted", name)
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
		h := http.Header{identity.PrincipalHeader: {principal}, identity.ToolsHeader: {tools},
			identity.AskHeader: {ask}}
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
		if id.Granted("read_file") && !strings.ContainsAny(tools, "*%") && !slices.Contains(id.Tools, "read_file") {
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
