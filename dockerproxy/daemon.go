package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// The API versions that the create request was checked against, as the minor
// number of 1.x.
const (
	oldestAPI = 41
	newestAPI = 57
)

// maxAnswer bounds what is read of one answer of the daemon, in bytes.
const maxAnswer = 8 << 20

// daemon speaks Docker's API over its socket: our version, our paths, our
// bodies. Nothing of a hub's request is passed on.
type daemon struct {
	socket string
	http   *http.Client
	minor  atomic.Int32 // pinned version, 1.minor
}

// refusal is an answer of the daemon that is not a success.
type refusal struct {
	status  int
	message string
}

func (r *refusal) Error() string { return r.message }

func isStatus(err error, status int) bool {
	var r *refusal
	return errors.As(err, &r) && r.status == status
}

func newDaemon(socket string) *daemon {
	d := &daemon{socket: socket}
	d.http = &http.Client{
		Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return d.dial(ctx) }},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return d
}

func (d *daemon) dial(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "unix", d.socket)
}

func (d *daemon) api() string { return fmt.Sprintf("1.%d", d.minor.Load()) }

// negotiate pins the newest version that both sides know.
func (d *daemon) negotiate(ctx context.Context) error {
	var v struct{ ApiVersion, MinAPIVersion string }
	if err := d.call(ctx, "GET", "/version", nil, nil, &v); err != nil {
		return fmt.Errorf("the Docker daemon does not answer (is the socket mounted, and does group_add name its "+
			"group?): %w", err)
	}
	newest, oldest := minor(v.ApiVersion), minor(v.MinAPIVersion)
	if newest < oldestAPI || oldest > newestAPI {
		return fmt.Errorf("the Docker daemon speaks API %.20q to %.20q; 1.%d to 1.%d are supported", v.MinAPIVersion,
			v.ApiVersion, oldestAPI, newestAPI)
	}
	d.minor.Store(int32(min(newest, newestAPI)))
	return nil
}

func minor(version string) int {
	n, err := strconv.Atoi(strings.TrimPrefix(version, "1."))
	if err != nil || !strings.HasPrefix(version, "1.") {
		return 0
	}
	return n
}

// call sends one request and decodes the answer into out, unless that is nil.
// Paths other than /version get the pinned version.
func (d *daemon) call(ctx context.Context, method, path string, query url.Values, body, out any) error {
	answer, err := d.open(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	defer answer.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, answer)
		return err
	}
	return json.NewDecoder(io.LimitReader(answer, maxAnswer)).Decode(out)
}

// open is call for answers that are read bit by bit.
func (d *daemon) open(ctx context.Context, method, path string, query url.Values, body any) (io.ReadCloser, error) {
	if path != "/version" {
		path = "/v" + d.api() + path
	}
	var data io.Reader
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		data = bytes.NewReader(encoded)
	}
	target := url.URL{Scheme: "http", Host: "docker", Path: path, RawQuery: query.Encode()}
	q, err := http.NewRequestWithContext(ctx, method, target.String(), data)
	if err != nil {
		return nil, err
	}
	if body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	answer, err := d.http.Do(q)
	if err != nil {
		var e *url.Error
		if errors.As(err, &e) {
			err = e.Err // without the address, which says nothing here
		}
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		return nil, newRefusal(answer)
	}
	return answer.Body, nil
}

func newRefusal(answer *http.Response) error {
	var e struct{ Message string }
	if json.NewDecoder(io.LimitReader(answer.Body, 64<<10)).Decode(&e) != nil || e.Message == "" {
		e.Message = answer.Status
	}
	return &refusal{answer.StatusCode, fmt.Sprintf("the Docker daemon says: %.1000s", e.Message)}
}
