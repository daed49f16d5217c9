package plugin

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// keeping is a backend that keeps its requests until it is told.
type keeping struct {
	entered chan bool
	release chan bool
}

func (h *keeping) ServeHTTP(rw http.ResponseWriter, _ *http.Request) {
	h.entered <- true
	<-h.release
	rw.WriteHeader(202)
}

func sized(path, token string, n int) *http.Request {
	r := post(path, strings.Replace(readFile, `"path":"a"`, `"path":"`+strings.Repeat("a", n-len(readFile)+1)+`"`, 1))
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

// One principal has a share of the bytes in flight, all together have a budget,
// and what has ended gives its bytes back. Small bodies do not count.
func TestBudgetOfBodies(t *testing.T) {
	logged(t)
	c := config()
	for _, name := range []string{"b", "c", "d"} {
		c.Tokens = append(c.Tokens, Token{Name: name, Value: strings.Repeat(name, 40), Tools: []string{"*"}})
	}
	next := &keeping{make(chan bool, 100), make(chan bool)}
	h := start(t, c, next)
	var under sync.WaitGroup
	hold := func(token string, n int) {
		under.Add(1)
		go func() {
			defer under.Done()
			h.ServeHTTP(httptest.NewRecorder(), sized("/mcp/mcp", token, n))
		}()
		<-next.entered
	}
	refused := func(token string, n int) {
		t.Helper()
		rec := do(h, sized("/mcp/mcp", token, n))
		if rec.Code != 429 || rec.Header().Get("Retry-After") != "1" {
			t.Errorf("status %d", rec.Code)
		}
	}
	for i := 0; i < 4; i++ {
		hold(clientToken, 8<<20)
	}
	refused(clientToken, 8<<20)
	refused(clientToken, smallBody+1)
	hold(clientToken, smallBody)
	for _, name := range []string{"b", "c"} {
		for i := 0; i < 4; i++ {
			hold(strings.Repeat(name, 40), 8<<20)
		}
	}
	refused(strings.Repeat("d", 40), 8<<20)
	hold(strings.Repeat("d", 40), 1000)
	close(next.release)
	under.Wait()
	if inFlight != 0 {
		t.Errorf("%d bytes are left", inFlight)
	}
	if rec := do(h, sized("/mcp/mcp", clientToken, 8<<20)); rec.Code != 202 || inFlight != 0 {
		t.Errorf("afterwards: status %d, %d bytes", rec.Code, inFlight)
	}
}

// A body that does not say how long it is takes what it is, at any size, and a
// refused one gives all back.
func TestBudgetOfChunkedBodies(t *testing.T) {
	logged(t)
	for _, n := range []int{1000, smallBody, smallBody + 1, 1 << 20} {
		s := &seen{}
		r := sized("/mcp/mcp", clientToken, n)
		chunked(r)
		if rec := do(start(t, config(), s), r); rec.Code != 200 || len(s.body) != n || inFlight != 0 {
			t.Errorf("%d bytes: status %d, the backend got %d, %d are left", n, rec.Code, len(s.body), inFlight)
		}
	}
	for _, n := range []int{smallBody + 1, 9 << 20} {
		c := config()
		c.MaxBodyBytes = smallBody / 2
		if n > 8<<20 {
			c.MaxBodyBytes = 8 << 20
		}
		r := sized("/mcp/mcp", clientToken, n)
		chunked(r)
		if rec := do(start(t, c, &seen{}), r); rec.Code != 413 || inFlight != 0 {
			t.Errorf("%d bytes over the cap: status %d, %d are left", n, rec.Code, inFlight)
		}
	}
	r := sized("/mcp/mcp", clientToken, 1<<20)
	r.Body = http.NoBody
	if rec := do(start(t, config(), &seen{}), r); rec.Code != 400 || inFlight != 0 {
		t.Errorf("a body that is not sent: status %d, %d are left", rec.Code, inFlight)
	}
}

// lingering is a client that does not read its answer.
type lingering struct {
	http.ResponseWriter
	begun, read chan struct{}
}

func (u *lingering) Write(p []byte) (int, error) {
	close(u.begun)
	<-u.read
	return len(p), nil
}

// Who does not read the refusal of a large body holds up nobody else's.
func TestUnreadRefusalHoldsNobody(t *testing.T) {
	logged(t)
	h := start(t, config(), &seen{})
	wrong := post("/mcp/mcp", strings.Replace(called("ping", `{"a":"`+strings.Repeat("x", smallBody)+`"}`), "2.0", "1.0", 1))
	u := &lingering{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	ended := make(chan struct{})
	go func() { h.ServeHTTP(u, wrong); close(ended) }()
	<-u.begun
	good := make(chan int, 1)
	go func() { good <- do(h, sized("/mcp/mcp", clientToken, smallBody+1)).Code }()
	select {
	case code := <-good:
		if code != 200 {
			t.Errorf("another large body: %d", code)
		}
	case <-time.After(time.Minute):
		t.Error("another large body waits for the client that does not read")
	}
	close(u.read)
	<-ended
}
