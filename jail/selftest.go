package jail

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// selfTest walks into each wall from a throw-away child. The child lives in a
// domain like the commands', but for one thing: where everything writable is
// granted, as in a container, there would be no outside, so the grants around
// the test's own directory are left out.
func (j *Jail) selfTest() error {
	dir, err := os.MkdirTemp("", "sallyport-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at, err := newPlace(j.cfg, dir)
	if err != nil {
		return err
	}
	listener, err := net.Listen("unix", at.Abstract)
	if err != nil {
		return err
	}
	defer listener.Close()
	test := &Jail{cfg: j.cfg, rules: j.rules, abi: j.abi, outer: j.outer, filter: j.filter, running: map[*Process]bool{}}
	if _, test.inner, err = domains(at.rules(j.rules)); err != nil {
		return err
	}
	defer test.inner.Close()
	said, err := test.throwaway("", at)
	if err != nil {
		return err
	}
	if !walked.MatchString(said) {
		return fmt.Errorf("a wall does not hold: %s", strings.ReplaceAll(strings.TrimSpace(said), "\n", "; "))
	}
	return nil
}

// rules are the jail's own, but for the grants around the place, and one
// device and one file that can be opened and no more.
func (at *place) rules(rules []rule) (rs []rule) {
	for _, r := range rules {
		if r.name == "/dev/full" {
			r.bits &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
		}
		if r.kind != "write" || !strings.HasPrefix(at.Outside, r.name+"/") {
			rs = append(rs, r)
		}
	}
	return append(rs, rule{kind: "write", name: at.Inside, bits: fsWrite},
		rule{kind: "write", name: at.Outside + "/data", bits: unix.LANDLOCK_ACCESS_FS_READ_FILE})
}

// newPlace lays out what the probe will walk into.
func newPlace(cfg Config, dir string) (*place, error) {
	at := &place{Config: cfg, Server: os.Getpid(), Canary: theCanary.pid, Abstract: "@" + filepath.Base(dir),
		Outside: filepath.Join(dir, "outside"), Inside: filepath.Join(dir, "inside")}
	for _, d := range []string{at.Outside + "/dir", at.Inside + "/a", at.Inside + "/b"} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	for _, f := range []string{at.Outside + "/file", at.Outside + "/gone", at.Outside + "/data", at.Inside + "/a/file"} {
		if err := os.WriteFile(f, []byte("x"), 0o755); err != nil {
			return nil, err
		}
	}
	return at, nil
}

// walked is what a probe says when every wall of both stages has held.
var walked = regexp.MustCompile(`^landlock [1-9]\d*\nseccomp [1-9]\d*\n$`)

// throwaway runs a stub that does an extra step, or walks into the walls of a
// place, and returns what it printed.
func (j *Jail) throwaway(step string, at *place) (string, error) {
	var out, trouble bytes.Buffer
	p := &Process{jail: j, extra: step, at: at}
	c := Command{Args: []string{"/bin/sh", "-c", ":"}, Stdout: &out, Stderr: &trouble, Timeout: startBound}
	if err := p.start(context.Background(), c); err != nil {
		return "", err
	}
	if res := p.Wait(); res.ExitCode != 0 {
		return "", fmt.Errorf("a throw-away child: %+v %s", res, trouble.String())
	}
	return out.String(), nil
}

// environ tells a probe where it is. The thread is the one that holds it.
func (at place) environ() []string {
	at.Thread = unix.Gettid()
	raw, _ := json.Marshal(at) // strings and numbers only: there is no error
	return []string{placeVariable + "=" + string(raw)}
}

// unbuilt adds to a reason what the owner can do about it.
func unbuilt(err error) error {
	return errors.Join(fmt.Errorf("the jail cannot be built: %w", err), errors.New(`  To run without it, which loses every wall but the account itself, start with MCP_JAIL=group (docs/jail.md):
  commands could then read this server's token and the account's other files, signal its processes, use the network,
  and leave processes behind.`))
}
