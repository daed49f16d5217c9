package audit_test

import (
	"path/filepath"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/audit"
)

// BenchmarkCall is what two records cost each call.
func BenchmarkCall(b *testing.B) {
	l, err := audit.Open(audit.Options{File: filepath.Join(b.TempDir(), "a", "audit.jsonl")})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for b.Loop() {
		p, err := l.Begin(audit.Call{Principal: "token:poke", Session: "0123456789ab", Tool: "run_command", Arguments: []byte(`{"command":"go test ./..."}`)})
		if err != nil {
			b.Fatal(err)
		}
		p.End(audit.Outcome{Verdict: "ok", ResultBytes: 1000})
	}
}
