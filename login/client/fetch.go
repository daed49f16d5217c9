package client

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/publicdial"
	"github.com/sallyport-dev/sallyport/login/store"
)

// Limits of what is fetched from addresses that strangers choose.
const (
	fetchTimeout = 8 * time.Second
	maxDocument  = 64 << 10
	maxFetches   = 4 // at once
)

// Fetcher gets client ID metadata documents and key sets. The address is checked at
// the moment of connecting, after the only resolution of the name; redirects and
// proxies are not followed.
type Fetcher struct {
	client *http.Client
	room   chan struct{}
}

// NewFetcher returns one that connects to public addresses only.
func NewFetcher() *Fetcher {
	return &Fetcher{client: publicdial.Client(fetchTimeout), room: make(chan struct{}, maxFetches)}
}

// hostName is a DNS name with a dot: no literal address in any notation, since those
// that browsers and resolvers understand (decimal, hexadecimal) end in digits.
var hostName = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]([a-z0-9-]*[a-z0-9])?$`)

// documentURL checks a client id that is a URL (draft-ietf-oauth-client-id-metadata-document,
// section 3): https, a path, no user part, fragment or dot segment.
func documentURL(id string) error {
	u, err := url.Parse(id)
	if err != nil || len(id) > 1000 || u.Scheme != "https" || u.User != nil || strings.ContainsAny(id, "?#") ||
		len(u.Path) < 2 || u.String() != id || path.Clean(u.EscapedPath()) != strings.TrimSuffix(u.EscapedPath(), "/") {
		return errors.New("it must be an https URL with a plain path, without query and fragment")
	}
	if !hostName.MatchString(u.Host) {
		return errors.New("its host must be a public DNS name, in lower case and without port")
	}
	return nil
}

// Document fetches the client whose id is a URL.
func (f *Fetcher) Document(ctx context.Context, id string) (c *store.Client, err error) {
	var m metadata
	if err = documentURL(id); err == nil {
		err = f.fetch(ctx, id, &m)
	}
	if err == nil && m.ID != id {
		err = errors.New("its client_id is another")
	}
	if err == nil {
		c, err = m.build("document", time.Now())
	}
	if err != nil {
		return nil, &Error{"invalid_client", fmt.Sprintf("the client's document %s cannot be used: %v", id, err)}
	}
	return c, nil
}

// fetch gets JSON.
func (f *Fetcher) fetch(ctx context.Context, from string, into any) error {
	select {
	case f.room <- struct{}{}:
		defer func() { <-f.room }()
	case <-ctx.Done():
		return ctx.Err()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	resp, err := f.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("it answers %d; redirects are not followed", resp.StatusCode)
	case kind != "application/json" && !strings.HasSuffix(kind, "+json"):
		return fmt.Errorf("its content type is %q, not application/json", clean(kind))
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument+1))
	if err == nil && len(raw) > maxDocument {
		err = fmt.Errorf("it is larger than %d bytes", maxDocument)
	}
	return cmp.Or(err, json.Unmarshal(raw, into))
}
