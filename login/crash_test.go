package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/audit/reader"
)

// crashes is how often the process is killed: more in the soak.
func crashes() int {
	if os.Getenv("SALLYPORT_SOAK") != "" {
		return 1000
	}
	return 50
}

// life is one client that logs in and refreshes through crashes.
type life struct {
	*app
	refreshToken string
	spent        []string // refresh tokens that had a successor's successor: void
	codes        []string // that gave tokens
	refreshes    int
}

// kill -9 at random points of logins and refreshes that run at once: afterwards no client
// is locked out, no code is good twice, no refresh token is good outside its grace, and
// the state can be read, and the chain of records is whole.
func TestCrashes(t *testing.T) {
	r := newRig(t, nil)
	lives := make([]*life, 4)
	for i := range lives {
		lives[i] = &life{app: r.app()}
		lives[i].browser = r.browser()
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for n := range crashes() {
		owner := r.owner()
		var all sync.WaitGroup
		begun := make(chan struct{})
		for _, l := range lives {
			all.Go(func() { <-begun; l.live(owner) })
		}
		close(begun)
		time.Sleep(time.Duration(random.IntN(60)) * time.Millisecond) // the random point
		r.kill()
		all.Wait()
		file := filepath.Join(r.dir, "audit", "login.jsonl")
		if found, err := audit.Verify(file, audit.VerifyOptions{}); err != nil || found.Finding != nil {
			t.Fatalf("crash %d: the chain: %v %v", n, found.Finding, err)
		}
		if _, _, err := reader.Read(file); err != nil {
			t.Fatalf("crash %d: the second reader: %v", n, err)
		}
		r.start()
		for i, l := range lives {
			if err := l.checked(); err != nil {
				t.Fatalf("crash %d, client %d: %v\n%s", n, i, err, r.log)
			}
		}
	}
	for i, l := range lives {
		t.Logf("client %d: %d logins, %d refreshes", i, len(l.codes), l.refreshes)
	}
}

// live logs in where it has no token, and refreshes until the process is gone.
func (l *life) live(owner *browser) {
	previous := ""
	for {
		if l.refreshToken == "" {
			code := l.tryApprove(owner)
			if code == "" {
				return
			}
			a, err := l.try("POST", "/token", change(l.form("authorization_code"), []string{"code", code, "code_verifier", l.verifier}))
			if err != nil {
				return
			}
			if a.status == 200 {
				l.refreshToken, l.codes = a.text("refresh_token"), append(l.codes, code)
			}
		}
		a, err := l.try("POST", "/token", change(l.form("refresh_token"), []string{"refresh_token", l.refreshToken}))
		if err != nil {
			return
		}
		if a.status == 200 {
			l.refreshes++
			if previous != "" {
				l.spent = append(l.spent, previous)
			}
			previous, l.refreshToken = l.refreshToken, a.text("refresh_token")
		}
		if len(l.spent) > 0 && len(l.spent)%7 == 0 { // sometimes anew
			l.refreshToken, previous = "", ""
		}
	}
}

func (l *life) form(kind string) map[string][]string {
	return map[string][]string{"grant_type": {kind}, "client_id": {l.id}}
}

func (l *life) tryApprove(owner *browser) string {
	page, err := owner.try("GET", "/authorize?"+l.query().Encode(), nil)
	if err != nil {
		return ""
	}
	f := fields(page.body, "/mcp-login/consent")
	f["tools"], f["days"], f["decision"] = []string{"read_file"}, []string{"30"}, []string{"allow"}
	done, err := owner.try("POST", "/consent", f)
	if err != nil {
		return ""
	}
	return landing(done.body).Get("code")
}

// checked is what must hold after a crash.
func (l *life) checked() error {
	if l.refreshToken != "" { // the last that the client got, or its lost successor's predecessor
		a, err := l.try("POST", "/token", change(l.form("refresh_token"), []string{"refresh_token", l.refreshToken}))
		if err != nil || a.status != 200 {
			return fmt.Errorf("locked out: %v %+v", err, a)
		}
		l.refreshToken = a.text("refresh_token")
	}
	for _, code := range l.codes[max(0, len(l.codes)-3):] {
		a, err := l.try("POST", "/token", change(l.form("authorization_code"), []string{"code", code, "code_verifier", l.verifier}))
		if err != nil || a.status == 200 {
			return fmt.Errorf("a code twice: %v", err)
		}
	}
	if n := len(l.spent); n > 0 {
		a, err := l.try("POST", "/token", change(l.form("refresh_token"), []string{"refresh_token", l.spent[n-1]}))
		if err != nil || a.status == 200 {
			return fmt.Errorf("a void refresh token: %v", err)
		}
		l.spent, l.refreshToken = nil, "" // that took the grant back
	}
	return nil
}
