package doctor

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/egress/proxy"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/egresswire"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// What doctor says of egress: nothing where there is none, well, and each way
// in which it is not.
func TestEgress(t *testing.T) {
	for name, c := range map[string]struct{ env, rules, allow, want string }{
		"none":         {"", "", "", ""},
		"down":         {"EGRESS_ALLOW=a.example\n", "", "", "egress-down"},
		"narrow":       {"", `egress: ["*", "b.example"]`, "*.a.example", "egress-narrow"},
		"unresolvable": {"", "", "no-such-name.invalid", "egress-unresolvable"},
		"ignored":      {"", "", "*.a.example", "proxy-ignored"},
		"well":         {"EGRESS_ALLOW=*.a.example\n", `egress: ["*"] # egress: ["b.example"]`, "*.a.example", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			os.MkdirAll(".sallyport/run/egress", 0o700)
			os.MkdirAll(".sallyport/egress", 0o700)
			os.WriteFile(egressKey, []byte(strings.Repeat("0a", 32)), 0o600)
			os.WriteFile(".env", []byte(c.env), 0o600)
			os.WriteFile("traefik-dynamic.yml", []byte(c.rules), 0o600)
			if c.allow != "" {
				serveEgress(t, c.allow)
			}
			if name == "ignored" {
				key, _ := keysocket.ReadKey(egressKey)
				(&egresswire.Client{Socket: egressSocket, Key: key}).Tell(egresswire.Past{Principal: "token:a", ID: "c1", Count: 2})
			}
			w := &walk{ctx: t.Context()}
			w.egress()
			var got []string
			for _, l := range w.lines {
				got = append(got, l.Finding+string(l.Verdict)+l.Proof)
			}
			all := strings.Join(got, "\n")
			if (c.want == "") != (all == "") || !strings.Contains(all, c.want) || c.want == "ok" && strings.Contains(all, "egress-") {
				t.Errorf("want %q:\n%s", c.want, all)
			}
		})
	}
}

func serveEgress(t *testing.T, allow string) {
	t.Helper()
	ceiling, err := egressrule.ParseList([]string{allow}, egressrule.ParseCeiling)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keysocket.ReadKey(egressKey)
	if err != nil {
		t.Fatal(err)
	}
	l, err := keysocket.Listen(egressSocket, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- (&proxy.Server{Ceiling: ceiling}).Run(ctx, l, key.Sum()) }()
	t.Cleanup(func() { cancel(); <-done })
}
