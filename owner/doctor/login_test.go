package doctor

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// What doctor says of the host name that login shares, and that it says nothing where
// there is no login.
func TestLoginsHost(t *testing.T) {
	plain := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for name, c := range map[string]struct {
		config, want string
		status       int
	}{
		"none":               {"", "", 404},
		"asks, alone":        {`{"issuer":"%s/mcp-login","ownHost":false}`, "since config/login.json says", 404},
		"asks, shared":       {`{"issuer":"%s/mcp-login"}`, "as it should", 200},
		"does not, alone":    {`{"issuer":"%s/mcp-login","ownHost":true}`, "Sallyport's alone", 404},
		"does not, shared":   {`{"issuer":"%s/mcp-login","ownHost":true}`, "login-host-shared", 200},
		"does not, redirect": {`{"issuer":"%s/mcp-login","ownHost":true}`, "login-host-shared", 302},
		"its own page at /":  {`{"issuer":"%s","ownHost":true}`, "was not seen", 200},
		"no issuer":          {`{} %.0s`, "not readable", 200},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }))
			defer server.Close()
			if c.config != "" {
				os.Mkdir("config", 0o700)
				os.WriteFile(loginFile, fmt.Appendf(nil, c.config, server.URL), 0o600)
			}
			w := &walk{ctx: t.Context(), opt: options{wait: 10 * time.Second}, base: &url.URL{Path: "/x"}, http: plain}
			w.login()
			all := strings.Join(w.skipped, "\n")
			for _, l := range w.lines {
				all += l.Finding + " " + l.Proof
			}
			if (c.want == "") != (all == "") || !strings.Contains(all, c.want) {
				t.Errorf("want %q:\n%s", c.want, all)
			}
		})
	}
}
