package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/audit/reader"
)

// The disk of the audit is full: no token is given that is not on the record, and with
// room again the client goes on. Nothing is lost.
func TestFullDiskGivesNoTokens(t *testing.T) {
	r := prepare(t, nil)
	folder := filepath.Join(r.dir, "audit")
	r.wrap = []string{"unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
		`mkdir -p "$1" && mount -t tmpfs -o size=2m,mode=0700 tmpfs "$1" && shift && exec "$@"`, "sh", folder}
	if out, err := exec.Command(r.wrap[0], append(r.wrap[1:len(r.wrap):len(r.wrap)], "true")...).CombinedOutput(); err != nil {
		t.Skipf("not on this machine: no mount namespace: %v %s", err, out)
	}
	r.start()
	if out, err := r.verb(password+"\n", "password"); err != nil {
		t.Fatal(err, out)
	}
	l := &life{app: r.app()}
	l.browser = r.browser()
	owner := r.owner()
	code := l.tryApprove(owner)
	first, err := l.try("POST", "/token", change(l.form("authorization_code"), []string{"code", code, "code_verifier", l.verifier}))
	if err != nil || first.status != 200 {
		t.Fatalf("twin, with room: %v %+v", err, first)
	}
	inside := fmt.Sprintf("/proc/%d/root%s", r.cmd.Process.Pid, folder)
	rest, err := os.Create(filepath.Join(inside, "rest"))
	if err != nil {
		t.Fatal(err)
	}
	defer rest.Close()
	if _, err := io.Copy(rest, zeros{}); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	token, given := first.text("refresh_token"), 1
	refused := (*reply)(nil)
	for n := 0; refused == nil && n < 20_000; n++ { // what was reserved before may still be used
		a, err := l.try("POST", "/token", change(l.form("refresh_token"), []string{"refresh_token", token}))
		switch {
		case err != nil:
			t.Fatal(err)
		case a.status == 200:
			token, given = a.text("refresh_token"), given+1
		default:
			refused = a
		}
	}
	if refused == nil || refused.status < 500 || strings.Contains(refused.body, "access_token") {
		t.Errorf("on a full disk: %+v", refused)
	}
	t.Logf("refused after %d tokens: %d %s", given, refused.status, refused.body)
	if code := l.tryApprove(owner); code != "" {
		t.Error("a consent without a record")
	}
	if err := os.Remove(rest.Name()); err != nil {
		t.Fatal(err)
	}
	rest.Close()
	a, err := l.try("POST", "/token", change(l.form("refresh_token"), []string{"refresh_token", token}))
	if err != nil || a.status != 200 {
		t.Errorf("with room again: %v %+v", err, a)
	}
	file := filepath.Join(inside, "login.jsonl")
	if _, _, err := reader.Read(file); err != nil {
		t.Errorf("the second reader: %v", err)
	}
	if found, err := audit.Verify(file, audit.VerifyOptions{}); err != nil || found.Finding != nil {
		t.Errorf("%v %v", found.Finding, err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// A second login with the same audit does not start, and says why.
func TestSecondLoginIsRefused(t *testing.T) {
	r := newRig(t, nil)
	second := exec.Command(os.Args[0])
	second.Env = append(r.env(), "LOGIN_ADDR=127.0.0.1:0", "LOGIN_STATE_DIR="+filepath.Join(t.TempDir(), "state"))
	if out, err := second.CombinedOutput(); err == nil || !strings.Contains(string(out), "another process writes this chain") {
		t.Errorf("%v\n%s", err, out)
	}
}
