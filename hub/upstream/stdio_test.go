package upstream

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
)

func TestMain(m *testing.M) { jailtest.Main(m) }

// child starts a shell as a server.
func child(t *testing.T, script string) Conn {
	t.Helper()
	dir := t.TempDir()
	j, err := jail.New(jail.Config{Mode: jail.Group, Network: jail.Container, Writable: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	c, err := Stdio(Child{Jail: j, Args: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir,
		Log: func(string) {}})(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// heard is all that a server says, and why it says no more.
func heard(c Conn) (string, error) {
	var all strings.Builder
	for {
		line, err := c.Receive()
		if err != nil {
			return all.String(), err
		}
		all.Write(line)
	}
}

// TestLastWords: what a server wrote before its end is read, all of it, before the end
// is, whoever else holds its stdout by then; and a closed stdout alone is no end.
func TestLastWords(t *testing.T) {
	for script, want := range map[string]string{
		"echo last; exit 3":                            "last\n",
		"head -c 60000 /dev/zero | tr '\\0' x; exit 3": strings.Repeat("x", 60000),
		"echo last; sleep 60 & exit 3":                 "last\n", // ends with it
		"setsid sh -c 'echo late; touch x; while test -e x; do sleep .05; done' & while ! test -e x; do sleep .02; done; exit 3": "late\n",
		"echo last; exec >&-; sleep .3; exit 3": "last\n",
		"printf half; exit 3":                   "half",
	} {
		if got, err := heard(child(t, script)); got != want || err.Error() != "the server exited with code 3" {
			t.Errorf("%s: %d bytes (%.20q), %v", script, len(got), got, err)
		}
	}
}

// TestLateReader: also who comes after the bound reads what was said before the end,
// and no more than a pipe holds of one who says it on and on.
func TestLateReader(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close() // somebody holds it
	in.WriteString("last\n")
	told := &said{out: out, gone: make(chan struct{}), why: errors.New("the end")}
	close(told.gone)
	out.SetReadDeadline(time.Now().Add(-time.Second))
	c := newLines(told, in, out.Close)
	defer c.Close()
	if got, err := heard(c); got != "last\n" || err != told.why {
		t.Errorf("%q, %v", got, err)
	}
	told.late = 0
	for said := 0; ; said += 10 {
		in.WriteString("and again\n")
		if _, err := c.Receive(); err == told.why && said >= jail.MaxPipe {
			break
		} else if said > 2*jail.MaxPipe || err != nil {
			t.Fatalf("after %d bytes: %v", said, err)
		}
	}
}

// TestCloseOfAChild: a server that cannot get rid of its output ends by itself all the
// same, since somebody takes it; one that does not end is ended after its grace.
func TestCloseOfAChild(t *testing.T) {
	for script, byItself := range map[string]bool{
		"cat >/dev/null; head -c 100000 /dev/zero; touch $0": true, // more than a pipe holds
		"cat >/dev/null; touch $0":                           true,
		"trap '' TERM; while :; do sleep 1; done; touch $0":  false,
	} {
		mark := filepath.Join(t.TempDir(), "ended")
		ended := func() bool {
			closed(t, child(t, "echo ready; "+strings.ReplaceAll(script, "$0", mark)))
			_, err := os.Stat(mark)
			return err == nil
		}
		got := ended()
		for try := 0; byItself && !got && try < 3; try++ { // a busy machine may need longer than the grace
			got = ended()
		}
		if got != byItself {
			t.Errorf("%s: ended by itself: %v", script, got)
		}
	}
}

// closed closes a server that is ready, after which nothing passes.
func closed(t *testing.T, c Conn) {
	t.Helper()
	if line, err := c.Receive(); string(line) != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	c.Close()
	if line, err := c.Receive(); err != ErrClosed {
		t.Errorf("then %.20q, %v", line, err)
	}
	if err := c.Send(Outgoing{Raw: []byte("{}")}); err != ErrClosed {
		t.Errorf("sent then: %v", err)
	}
}
