package main_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/egresswire"
)

// A program that ignores the proxy variables finds nothing. Its caller is told why,
// egress records it, and doctor hears of it. The twin: what uses the proxy, and a
// server of the command's own, are not called so.
func TestProgramsThatIgnoreTheProxy(t *testing.T) {
	world.dns.Set("a.example", "93.184.215.10")
	if !rootHere(t) {
		return
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			s := startSandbox(t, uid, "a.example")
			c := s.connect(as("one", "a.example"))
			const words = "went past the proxy"
			for _, line := range []string{trust + "curl -sS https://a.example/x", "curl -sS https://b.example/", "true",
				"python3 -m http.server 8080 >/dev/null 2>&1 & until curl -s --noproxy '*' http://127.0.0.1:8080/; do sleep .1; done"} {
				if r := s.run(c, line); strings.Contains(strings.Join(r.Notices, ""), words) {
					t.Errorf("the twin %s: %q", line, r.Notices)
				}
			}
			for _, line := range []string{"curl -sS --noproxy '*' https://a.example/", "curl -sS --noproxy '*' -k https://93.184.215.10/", "getent hosts a.example",
				"curl -sS --noproxy '*' -k 'https://[2606:2800:220::10]/'"} {
				r := s.run(c, line)
				if all := strings.Join(r.Notices, ""); r.ExitCode == 0 || !strings.Contains(all, words) || !strings.Contains(all, "settings.xml") {
					t.Errorf("%s: %+v", line, r)
				}
			}
			var told []egresswire.Past
			awaitThat(t, "egress hears of it", func() bool {
				reply, err := s.egress.client.Ask(t.Context(), egresswire.Check{})
				told = reply.Past
				return err == nil && len(told) == 4
			})
			for _, p := range told {
				if p.Principal != "token:one" || p.ID == "" || p.Count < 1 || p.At.IsZero() {
					t.Errorf("egress was told %+v", p)
				}
			}
			recorded := 0
			for _, r := range s.egress.records() {
				if id, _ := detail(r, "command"); r["verdict"] == "past_proxy" && r["principal"] == "token:one" && id != "" {
					recorded++
				}
			}
			if recorded != 4 {
				t.Errorf("%d records", recorded)
			}
		})
	}
}

// A disk that is nearly full is said while installs still work, and a full one as
// well. The twin: with enough room nothing is said.
func TestFullCacheIsSaid(t *testing.T) {
	if !rootHere(t) {
		return
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			private := inContainer(t)
			if err := syscall.Mount("tmpfs", private, "tmpfs", 0, "size=16m,mode=1777"); err != nil {
				t.Fatal(err)
			}
			defer syscall.Unmount(private, syscall.MNT_DETACH)
			s := startSandbox(t, uid, "a.example", "MCP_PRIVATE_DIR="+private)
			c := s.connect(as("one"))
			for _, step := range []struct {
				line, want string
				works      bool
			}{
				{"head -c 10M /dev/zero >$TMPDIR/a", "", true},
				{"head -c 5M /dev/zero >$TMPDIR/b", "is nearly full: 1 of 16 MiB are left", true}, // in this one's own result
				{"true", "is nearly full", true},
				{"head -c 2M /dev/zero >$TMPDIR/c", "is full: programs that write there fail", false},
				{"rm $TMPDIR/a", "", true},
			} {
				r := s.run(c, step.line)
				if all := strings.Join(r.Notices, "\n"); (all == "") != (step.want == "") || !strings.Contains(all, step.want) || (r.ExitCode == 0) != step.works {
					t.Errorf("%s: want %q: %+v", step.line, step.want, r)
				}
			}
		})
	}
}

// awaitThat waits until something holds.
func awaitThat(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not seen: ", what)
		}
	}
}
