package upstream

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
)

// events speaks the older HTTP+SSE transport (MCP 2024-11-05).
type events struct {
	*remote
	post string // where messages go
}

// SSE dials a remote HTTP+SSE server: it opens the stream and waits for its
// endpoint.
func SSE(r Remote) Dial {
	return func(ctx context.Context) (Conn, error) {
		c := &events{remote: newRemote(r)}
		endpoint := make(chan string, 1)
		failed := make(chan error, 1)
		c.work.Go(func() { failed <- c.read(endpoint) })
		select {
		case c.post = <-endpoint:
			c.work.Go(c.deliver)
			return c, nil
		case err := <-failed:
			c.shut()
			return nil, err
		case <-ctx.Done():
			c.shut()
			return nil, ctx.Err()
		}
	}
}

// read opens the stream and reads it to its end.
func (c *events) read(endpoint chan<- string) error {
	resp, base, err := c.open()
	if err != nil {
		return unwrap(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !isEvents(resp) {
		return httpError(resp)
	}
	known := false
	err = readEvents(resp.Body, &position{}, func(e event) error {
		switch {
		case e.name == "endpoint" && !known:
			at, err := resolve(base, e.data)
			if err == nil {
				known = true
				endpoint <- at
			}
			return err
		case e.name == "" || e.name == "message":
			return c.push([]byte(e.data))
		}
		return nil
	})
	if errors.Is(err, io.EOF) {
		err = errors.New("the remote server closed the stream")
	}
	c.stop(err)
	return err
}

// open asks for the stream, where need be at the address that the server
// redirects to within its origin.
func (c *events) open() (resp *http.Response, base string, err error) {
	base = c.URL
	for again := false; ; again = true {
		req, err := c.request(c.ctx, http.MethodGet, base, nil)
		if err != nil {
			return nil, "", err
		}
		req.Header.Set("Accept", "text/event-stream")
		if resp, err = c.client.Do(req); err != nil {
			return nil, "", err
		}
		to, err := moved(resp, base)
		if err == nil && to == "" {
			return resp, base, nil
		}
		resp.Body.Close()
		if err == nil && again {
			err = errMoved(base, to)
		}
		if err != nil {
			return nil, "", err
		}
		base = to
	}
}

// resolve refuses an endpoint elsewhere: the entry's headers would go there.
func resolve(base, ref string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", err
	}
	at, err := b.Parse(ref)
	if err != nil || at.Scheme != b.Scheme || at.Host != b.Host || at.User != nil {
		return "", errors.New("the remote server names an endpoint on another origin")
	}
	return at.String(), nil
}

func (c *events) deliver() {
	for {
		select {
		case <-c.ctx.Done():
			return
		case m := <-c.out:
			if err := c.send(m.Raw); err != nil {
				c.fault(m.Raw, err)
			}
		}
	}
}

func (c *events) send(raw []byte) error {
	req, err := c.request(c.ctx, http.MethodPost, c.post, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.client.Do(req)
	if err != nil {
		return unwrap(err)
	}
	defer resp.Body.Close()
	if to, err := moved(resp, c.post); err != nil || to != "" {
		return errors.Join(err, errMoved(c.post, to))
	}
	if resp.StatusCode >= 300 {
		return httpError(resp)
	}
	return nil
}

// Close implements Conn.
func (c *events) Close() error {
	c.shut()
	return nil
}
