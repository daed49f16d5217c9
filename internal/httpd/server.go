// Package httpd is what our HTTP servers do alike: the bearer check, the Host and
// Origin guard, bounded bodies, long-lived streams and an orderly end.
package httpd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// MaxBody is the most that a request body may hold, in bytes: a file of 1 MiB
// can be 6 MiB of JSON.
const MaxBody = 8 << 20

const (
	headerWait   = 10 * time.Second  // to send a request's header
	bodyWait     = 60 * time.Second  // to send a request's body
	idleWait     = 120 * time.Second // between two requests of a connection
	shutdownWait = 10 * time.Second  // for requests to end
	acceptPause  = 200 * time.Millisecond
	maxHeader    = 64 << 10 // bytes
)

// Serve answers requests on l until ctx ends. Then it calls stop, which must
// make open streams end, waits for the requests that still run, and cuts what
// is left. It returns nil after such an end.
func Serve(ctx context.Context, l net.Listener, h http.Handler, log *slog.Logger, stop func()) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerWait,
		IdleTimeout:       idleWait,
		MaxHeaderBytes:    maxHeader,
		// "OPTIONS *" would be answered before any handler sees it.
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(steady{l, log}) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	log.Info("shutting down")
	stop()
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
	defer cancel()
	if err := srv.Shutdown(wait); err != nil {
		log.Warn("cutting the requests that did not end", "error", err)
		return srv.Close()
	}
	return nil
}

// steady is a listener that only closing ends. net/http gives up on an error
// that it does not take for temporary, and a command can cause one: the
// kernel counts an account's epoll watches (epoll(7), max_user_watches), and
// where they are used up Accept fails with ENOSPC.
type steady struct {
	net.Listener
	log *slog.Logger
}

// Accept waits for the next connection, whatever happens to others.
func (l steady) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return conn, err
		}
		l.log.Error("a connection could not be accepted; trying again", "error", err)
		time.Sleep(acceptPause)
	}
}

// Bodies reads each request's body whole before the handler sees it: at most
// MaxBody bytes, else 413, and within a minute, else 408. There is no read
// deadline afterwards, because one would also end a stream that only sends.
func Bodies(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength > MaxBody {
			http.Error(w, tooLarge, http.StatusRequestEntityTooLarge)
			return
		}
		if r.Body == nil || r.Body == http.NoBody || takeBody(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// takeBody reads the body, or answers why not.
//
//go:noinline
func takeBody(w http.ResponseWriter, r *http.Request) bool {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyWait)) // a test's recorder has none
	body, err := readBody(w, r)
	_ = rc.SetReadDeadline(time.Time{})
	if err != nil {
		refuseBody(w, err)
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.ContentLength = int64(len(body)) // also of a chunked one
	return true
}

const tooLarge = "the request body is larger than 8 MiB"

func refuseBody(w http.ResponseWriter, err error) {
	var large *http.MaxBytesError
	var slow net.Error
	switch {
	case errors.As(err, &large):
		http.Error(w, tooLarge, http.StatusRequestEntityTooLarge)
	case errors.As(err, &slow) && slow.Timeout():
		http.Error(w, "the request body took too long", http.StatusRequestTimeout)
	default:
		http.Error(w, "the request body could not be read", http.StatusBadRequest)
	}
}

func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
}
