package plugin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// discover asks the documents of the issuer, in the order of the MCP
// specification: RFC 8414, section 3.1, then OpenID Connect Discovery with the
// path inserted, then as it is defined.
func discover(issuer string) (string, error) {
	u, err := url.Parse(issuer)
	if err != nil {
		return "", err
	}
	origin := u.Scheme + "://" + u.Host
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path}
	if path != "" {
		places = append(places, origin+path+"/.well-known/openid-configuration")
	}
	var failed []string
	for _, at := range places {
		from, err := jwksOf(issuer, at)
		if err == nil {
			return from, nil
		}
		failed = append(failed, err.Error())
	}
	return "", errors.New(strings.Join(failed, "; "))
}

// jwksOf reads one document.
func jwksOf(issuer, at string) (string, error) {
	var doc struct {
		Issuer string
		JWKS   string `json:"jwks_uri"`
	}
	if err := fetchJSON(at, &doc); err != nil {
		return "", err
	}
	keys, err := url.Parse(doc.JWKS)
	if err != nil || doc.Issuer != issuer || !safeURL(keys) {
		return "", errors.New(at + " names another issuer or no https jwks_uri")
	}
	return doc.JWKS, nil
}

// client follows no redirect: keys come from where the configuration says.
var client = &http.Client{Timeout: fetchTimeout, CheckRedirect: noRedirect}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func fetchJSON(from string, into interface{}) error {
	resp, err := client.Get(from)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	_ = resp.Body.Close()
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", from, resp.StatusCode)
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(body, into)
}
