package main_test

import (
	"crypto/rand"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// status is the answer to a request with the token: 401, or, past the edge, the
// sandbox's 404 for a path that it does not serve.
func (s *server) status(t *testing.T, token string) int {
	t.Helper()
	req, _ := http.NewRequest("GET", s.url+"/nothing", nil)
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Client{Timeout: deadline}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// until waits until the token is refused, or is not.
func (s *server) until(t *testing.T, token string, refused bool) {
	t.Helper()
	for end := time.Now().Add(deadline); (s.status(t, token) == 401) != refused; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("refused: %v, after %v too", !refused, deadline)
		}
	}
}

// The token is withdrawn by replacing or deleting its file, without a restart.
func TestTokenIsWithdrawnWhileItRuns(t *testing.T) {
	for name, uid := range users() {
		t.Run(name, func(t *testing.T) {
			s := start(t, folder(t, uid), uid)
			file := filepath.Join(s.dir, ".sallyport/edge/client-token")
			old, fresh := s.token(t), rand.Text()+rand.Text()
			if s.status(t, old) == 401 || s.status(t, fresh) != 401 {
				t.Fatal("the token is not the one in the file")
			}
			if err := os.WriteFile(file, []byte(fresh+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.until(t, old, true)
			s.until(t, fresh, false)
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			s.until(t, fresh, true)
			s.interrupt(t)
		})
	}
}
