package replay

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// say answers with a body; TOKEN in it is what the request brought as its bearer.
func say(code int, kind, body string) func(http.ResponseWriter, *http.Request) {
	return func(rw http.ResponseWriter, r *http.Request) {
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		rw.Header().Set("Content-Type", kind)
		rw.WriteHeader(code)
		io.WriteString(rw, strings.ReplaceAll(body, "TOKEN", token))
	}
}

// No answer, however wrong, gets a token into the report, nor the beginning of one: not
// the one of a server that answers with a form, with broken JSON, or with a page that
// repeats what it was sent where the report cuts it. The twins show what may be shown.
func TestWrongAnswersShowNoSecret(t *testing.T) {
	const secret = "SECRET-0123456789-0123456789-0123456789"
	far := strings.Repeat("x", 112)
	for name, row := range map[string]struct {
		spoil       func(*world)
		want, shown string
	}{
		"a form": {at("/as/token", 0, say(200, "application/x-www-form-urlencoded",
			"access_token="+secret+"&token_type=bearer")), "token-not-json", "bytes"},
		"broken JSON": {at("/as/token", 0, say(200, "application/json", `{"access_token":"`+secret+`",}`)),
			"token-not-json", "bytes"},
		"an array": {at("/as/token", 0, say(200, "application/json", `[{"refresh_token":"`+secret+`"}]`)),
			"token-not-json", "bytes"},
		"an error page, the twin": {at("/as/token", 0, say(502, "text/html", "<html>bad gateway")), "token-not-json",
			"<html>bad gateway"},
		"a page with the token at its cut": {at(mcpPath, 2, say(500, "text/html", far+"TOKEN")), "call-failed", far},
		"a registration with a secret at its cut": {at("/as/register", 0, say(201, "application/json",
			`{"x":"`+far[:70]+`","client_secret":"`+secret+`"}`)), "registration-refused", "client_secret"},
	} {
		w := newWorld(t)
		row.spoil(w)
		found := false
		for _, r := range w.replay(t, "cursor", w.agree) {
			found = found || r.Stumble == row.want && strings.Contains(r.Text, row.shown)
			for _, hidden := range []string{"SECRET", "a.ey"} {
				if strings.Contains(r.Text, hidden) {
					t.Errorf("%s: %s is shown: %s", name, hidden, r.Text)
				}
			}
		}
		if !found {
			t.Errorf("%s: no %s that shows %q", name, row.want, row.shown)
		}
	}
}

// White space before a JSON object is no reason to doubt it: no client does.
func TestSpaceBeforeDocuments(t *testing.T) {
	for _, a := range []string{" {}", "\n{}", "{}"} {
		if !(&answer{body: []byte(a)}).document(&map[string]any{}) {
			t.Errorf("%q is no document", a)
		}
	}
	for _, a := range []string{"", " ", "[]", " []", "null", "{} {}"} {
		var into any
		if (&answer{body: []byte(a)}).document(&into) {
			t.Errorf("%q is a document", a)
		}
	}
}
