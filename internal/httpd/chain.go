package httpd

import (
	"context"
	"net/http"
	"strings"
)

// Step wraps a handler in a check or a service for it.
type Step = func(next http.Handler) http.Handler

// Chain is last behind the steps, which a request meets in the order in which
// they are written.
func Chain(last http.Handler, steps ...Step) http.Handler {
	for i := len(steps) - 1; i >= 0; i-- {
		last = steps[i](last)
	}
	return last
}

// Below answers the health check, and 404 to what is not served under base
// (without a slash at its end; "" serves every path). Clients look for OAuth
// metadata at well-known paths and take anything but 404 there for a login;
// these servers have none.
func Below(base string) Step {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/healthz":
				health(w, r)
			case r.URL.Path != base && !strings.HasPrefix(r.URL.Path, base+"/"),
				strings.Contains(r.URL.Path, "/.well-known/"):
				http.NotFound(w, r)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

func health(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		RefuseMethod(w, "GET, HEAD")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}

// Lifetime refuses requests once stopping has ended, and ends those that run
// when ended has: an open event stream says so first. why is the cause that
// their contexts end with.
func Lifetime(stopping, ended context.Context, why error) Step {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if stopping.Err() != nil {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
				return
			}
			ctx, cancel := context.WithCancelCause(r.Context())
			defer cancel(nil)
			defer context.AfterFunc(ended, func() {
				StreamFrom(ctx).Comment("the server is shutting down")
				cancel(why)
			})()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}
