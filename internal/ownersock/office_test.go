package ownersock_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
)

// An office serves from Start to Close, records what the owner does, and leaves
// no socket behind.
func TestOffice(t *testing.T) {
	dir := t.TempDir()
	set := config.Owner{AuditFile: filepath.Join(dir, "audit", "audit.jsonl"), OwnerSocket: filepath.Join(dir, "owner.sock"), OwnerKeyFile: filepath.Join(dir, "key")}
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
	if r, err := audit.Verify(set.AuditFile, audit.VerifyOptions{}); err != nil || r.Finding != nil || r.Last != 3 {
		t.Errorf("%+v %v", r, err)
	}
}
