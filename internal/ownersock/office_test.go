package ownersock_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

// An office serves from Start to Close, records what the owner does, and leaves
// no socket behind.
func TestOffice(t *testing.T) {
	dir := t.TempDir()
	set := config.Owner{AuditFile: filepath.Join(dir, "audit", "audit.jsonl"),
		OwnerSocket: filepath.Join(dir, "owner.sock"), OwnerKeyFile: filepath.Join(dir, "key")}
	if err := os.WriteFile(set.OwnerKeyFile, []byte(right), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := ownersock.Open(set, ownersock.Process{Name: "sandboxd", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Start(); err != nil {
		t.Fatal(err)
	}
	if ask(t, o, 100*time.Millisecond) != "canceled" { // the twin of the next test
		t.Error("a call did not wait for the owner")
	}
	for range 2 {
		c := dial(t, set.OwnerSocket, set.OwnerKeyFile)
		if err := c.Do(ownersock.Request{Op: ownersock.OpPause, Reason: "lunch"}, nil); err != nil {
			t.Fatal(err)
		}
		var note string
		if err := c.Do(ownersock.Request{Op: ownersock.OpAnchor}, &note); err != nil || note == "" {
			t.Errorf("anchor: %q %v", note, err)
		}
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(set.OwnerSocket); err == nil {
		t.Error("the socket is still there")
	}
	if r, err := audit.Verify(set.AuditFile, audit.VerifyOptions{}); err != nil || r.Finding != nil || r.Last != 4 {
		t.Errorf("%+v %v", r, err)
	}
}

// Without a socket nobody could approve, so a call does not wait for it.
func TestUnattendedOffice(t *testing.T) {
	o, err := ownersock.Open(config.Owner{}, ownersock.Process{Name: "sandboxd", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if got := ask(t, o, time.Minute); got != "unattended" {
		t.Errorf("%q", got)
	}
}

// ask makes a call that needs an approval, and gives up after patience.
func ask(t *testing.T, o *ownersock.Office, patience time.Duration) (verdict string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err := o.Desk.Admit(ctx, desk.Call{Ask: true, Call: audit.Call{Tool: "run_command", Arguments: []byte("{}")}})
	var r *desk.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("admitted: %v", err)
	}
	return r.Verdict
}
