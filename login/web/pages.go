package web

import (
	"bytes"
	"embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/login/client"
	"github.com/sallyport-dev/sallyport/login/owner"
	"github.com/sallyport-dev/sallyport/login/settings"
	"github.com/sallyport-dev/sallyport/login/store"
)

//go:embed assets
var assets embed.FS

var pages = template.Must(template.New("").Funcs(template.FuncMap{
	"id": passkeyID, "says": says, "target": client.Target, "local": client.Local, "has": slices.Contains[[]string],
	"day":    func(t time.Time) string { return t.UTC().Format("2 January 2006") },
	"minute": func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	"after":  func(t time.Time, days int) time.Time { return t.AddDate(0, 0, days) },
}).ParseFS(assets, "assets/pages.html"))

// view is what pages show. Which fields count depends on the page.
type view struct {
	Title, Base, CSRF, Error, Notice, Next, Target string
	HasPassword                                    bool
	Passkey, Add                                   *owner.Ceremony // to sign in, to register one
	Return, Back                                   template.URL
	Now                                            time.Time

	// The consent page.
	Request  string
	Asked    store.Grant // what is known of it
	Resource *settings.Resource
	Ticked   []string
	AskAgain bool

	// The list.
	Grants    []store.Grant
	Passkeys  []store.Passkey
	Resources []settings.Resource
}

func passkeyID(k store.Passkey) string { return base64.RawURLEncoding.EncodeToString(k.Credential.ID) }

// says explains a grant that does not speak for itself.
func says(grant string) string {
	rest, asks := strings.CutPrefix(grant, "ask:")
	text := map[bool]string{true: "each call waits for you"}[asks]
	switch {
	case rest == "*":
		text = "everything, " + text
	case strings.HasSuffix(rest, "/*"):
		text = "every tool of this server, " + text
	}
	return strings.TrimSuffix(text, ", ")
}

// view begins a page. With ask, it lets the owner prove to be there.
func (s *Server) view(title, wrong string, session *owner.Session, ask bool) view {
	v := view{Title: title, Base: s.Config.Base, Error: wrong, Now: s.Now()}
	if session != nil {
		v.CSRF = session.CSRF
	}
	password, passkeys := s.Store.Proofs()
	v.HasPassword, v.Passkeys = ask && password != "", passkeys
	if ask && s.passkeys != nil && len(v.Passkeys) > 0 {
		var err error
		if v.Passkey, err = s.passkeys.Ask(); err != nil {
			s.log.Error("no passkey can be asked for", "error", err.Error())
		}
	}
	return v
}

// show writes a page. Scripts may run only where a passkey is in play.
func (s *Server) show(w http.ResponseWriter, status int, name string, v view) {
	var page bytes.Buffer
	if err := pages.ExecuteTemplate(&page, name, v); err != nil {
		s.failed(w, err)
		return
	}
	policy := "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
	if v.Passkey != nil || v.Add != nil {
		policy += "; script-src 'self'"
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(page.Bytes()) // a browser that is gone
}

func asset(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, assets, "assets/"+path.Base(r.URL.Path)) // routed by name
}
