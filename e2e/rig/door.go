package rig

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httputil"
)

// Whole lets a proxy of a test send the body that came in as a client of its own
// would: all of it, and again where a connection that was kept turns out to be closed
// before anything was written to it. By itself httputil.ReverseProxy does neither:
// net/http closes the body that came in once the answer begins, and its client takes
// that for a failure and cuts a quick answer off.
func Whole(r *httputil.ProxyRequest) {
	body, _ := io.ReadAll(r.In.Body) // what breaks off arrives as it is
	r.Out.ContentLength = int64(len(body))
	r.Out.GetBody = func() (io.ReadCloser, error) {
		if len(body) == 0 { // else it goes out as a chunked body, which the edge refuses on GET
			return http.NoBody, nil
		}
		return io.NopCloser(bytes.NewReader(body)), nil
	}
	r.Out.Body, _ = r.Out.GetBody()
}
