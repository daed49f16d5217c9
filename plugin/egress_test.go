package plugin

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The egress process and the edge read the same rules.
func TestEgressVectors(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "testdata", "egress", "rules.tsv"))
	must(t, err)
	n := 0
	for _, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		cells := append(strings.Split(line, "\t"), "")
		text, err := strconv.Unquote(`"` + cells[1] + `"`)
		must(t, err)
		r := parseRule(text)
		valid := cells[0] == "any" || cells[0] == "token"
		if (r != nil) != valid || (valid && r.text != cells[2]) {
			t.Errorf("%s %q: %+v", cells[0], text, r)
		}
		n++
	}
	if n < 60 {
		t.Errorf("only %d vectors were read", n)
	}
}

func TestEgressHeader(t *testing.T) {
	logged(t)
	for _, row := range []struct {
		backend string
		rules   []string
		want    string
	}{
		{"sandbox", []string{"API.example.com", "*.example.org:8443", "http://deb.example.org:80"},
			"api.example.com,*.example.org:8443,http://deb.example.org"},
		{"sandbox", []string{"*"}, "*"}, {"sandbox", nil, ""}, {"sandbox", []string{"a.example:443", "a.example"},
			"a.example"},
		{"hub", []string{"a.example"}, "a.example"}, {"other", nil, ""},
	} {
		c := config()
		c.Backend = row.backend
		c.Tokens[0].Egress = row.rules
		c.Tokens[0].Tools = []string{"*"}
		s := &seen{}
		r := post("/mcp/mcp", readFile)
		r.Header["X-Sallyport-Egress"] = []string{"*"}
		do(start(t, c, s), r)
		if got := s.request.Header["X-Sallyport-Egress"]; strings.Join(got, ";") != row.want || (row.want == "" &&
			got != nil) {
			t.Errorf("%s %q: %q", row.backend, row.rules, got)
		}
	}
}

// A claim that cannot be read gives no network, and the log says whose and why; one that
// is absent or narrows all away says nothing.
func TestEgressClaim(t *testing.T) {
	log := logged(t)
	p := newIDP(t)
	for _, row := range []struct {
		ceiling []string
		claim   interface{}
		want    string
	}{
		{[]string{"*"}, []string{"a.example", "http://b.example"}, "a.example,http://b.example"},
		{[]string{"a.example"}, []string{"*"}, "a.example"},
		{[]string{"a.example"}, []string{"A.example", "b.example"}, "a.example"},
		{[]string{"*.example.org"}, []string{"a.example.org", "*.b.example.org", "example.org", "aexample.org"},
			"a.example.org,*.b.example.org"},
		{[]string{"a.example.org", "b.example"}, []string{"*.example.org"}, "a.example.org"},
		{[]string{"*.example.org"}, []string{"a.example.org:8443", "http://a.example.org"}, ""},
		{[]string{"a.example:8443"}, []string{"a.example:8443", "a.example"}, "a.example:8443"},
		{[]string{"*"}, []string{"private:nas.home:443", "10.0.0.1", "*.com", ""}, ""},
		{[]string{"*"}, nil, ""}, {[]string{"*"}, "*", ""}, {[]string{"*"}, make([]string, 101), ""}, {[]string{"*"},
			[]interface{}{"a.example", 1}, ""},
	} {
		c := p.config()
		c.OAuth.Egress = row.ceiling
		c.OAuth.EgressClaim = "egress"
		s := &seen{}
		said := len(log.String())
		code, body, _ := p.with(t, start(t, c, s), "read_file", map[string]interface{}{"egress": row.claim})
		list, isList := row.claim.([]string)
		unread := row.claim != nil && (!isList || len(list) > 100)
		if strings.Contains(log.String()[said:], "has no egress: egress is no list") != unread {
			t.Errorf("%q: the log says %s", row.claim, log.String()[said:])
		}
		if code != 200 || strings.Join(s.request.Header["X-Sallyport-Egress"], ";") != row.want {
			t.Errorf("%q cut to %q: status %d %s, %q", row.claim, row.ceiling, code, body,
				s.request.Header["X-Sallyport-Egress"])
		}
	}
	// Without the claim's name everybody has the ceiling.
	c := p.config()
	c.OAuth.Egress = []string{"a.example"}
	s := &seen{}
	if code, _, _ := p.with(t, start(t, c, s), "read_file", nil); code != 200 ||
		s.request.Header.Get("X-Sallyport-Egress") != "a.example" {
		t.Errorf("status %d, %q", code, s.request.Header["X-Sallyport-Egress"])
	}
}
