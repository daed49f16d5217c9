package doctor

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
)

// loginFile is what make up LOGIN=… writes.
const loginFile = "config/login.json"

// login says, where there is one, why its consents ask for password or passkey again:
// login.json says that the host name serves other things too, or it does although
// login.json says otherwise.
func (w *walk) login() {
	raw, err := os.ReadFile(loginFile)
	if err != nil {
		return
	}
	var config struct {
		Issuer  string `json:"issuer"`
		OwnHost bool   `json:"ownHost"`
	}
	err = json.Unmarshal(raw, &config)
	issuer, wrong := url.Parse(config.Issuer)
	if err != nil || wrong != nil || issuer.Host == "" {
		w.unseen("login", loginFile+" is not readable: its log says what is wrong")
		return
	}
	root := &url.URL{Scheme: issuer.Scheme, Host: issuer.Host, Path: "/"}
	served := "nothing else answers at " + root.String()
	r, err := w.ask(http.MethodGet, root, false)
	other := err == nil && r.status != http.StatusNotFound && issuer.Path != ""
	if other {
		served = fmt.Sprintf("something answers %d at %s", r.status, root)
	} else if err != nil || issuer.Path == "" {
		served = "whether something else answers there was not seen"
	}
	switch {
	case config.OwnHost && other:
		w.found("login", "login-host-shared", "%s, and %s says \"ownHost\": true", served, loginFile)
	case config.OwnHost:
		w.ok("login", "%s says that the host name is Sallyport's alone: a consent needs no second password; %s",
			loginFile, served)
	case other:
		w.ok("login", "each consent asks for password or passkey again, as it should: a page of the same host name "+
			"could click it, and %s", served)
	default:
		w.ok("login", "each consent asks for password or passkey again, since %s says \"ownHost\": false: a page of "+
			"the same host name could click it. "+
			"Now %s; if it stays so, write true", loginFile, served)
	}
}
