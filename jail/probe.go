package jail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
	"github.com/sallyport-dev/sallyport/jail/selftest"
	"github.com/sallyport-dev/sallyport/jail/stub"
)

// selfTest tries each rule from a throw-away child, which starts as a command
// does and stops between its steps. Its domain differs from the commands' in
// the directories of the test alone.
func (j *Jail) selfTest(canary int) error {
	if j.mounts == nil {
		return j.selfTestHere(canary, os.TempDir())
	}
	return onThread(func() error {
		if err := enterMounts(j.mounts); err != nil {
			return err
		}
		return j.selfTestHere(canary, "/tmp") // where TMPDIR leads may not be there
	})
}

// selfTestHere makes the test's directories in temp, where commands would see them.
func (j *Jail) selfTestHere(canary int, temp string) error {
	dir, err := os.MkdirTemp(temp, "sallyport-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	at, err := selftest.NewPlace(j.cfg, dir, canary)
	if err != nil {
		return err
	}
	listen := func() (io.Closer, error) { return net.Listen("unix", at.Abstract) }
	if !policy.Has[policy.OwnNetwork](j.rules) { // where else it has to be in the command's
		listener, err := listen()
		if err != nil {
			return err
		}
		defer listener.Close()
	}
	inner, err := innerDomain(at.Rules(j.rules))
	if err != nil {
		return err
	}
	defer inner.Close()
	said, err := j.throwaway(listen, func() (launch, error) {
		l, err := j.launch(Command{})
		if err != nil {
			return launch{}, err
		}
		return launch{stopping(l.steps), at.Environ(unix.Gettid(), budgetOf(l.steps)), inner, false}, nil
	})
	if err != nil {
		return err
	}
	return selftest.Verdict(said)
}

// stopping puts the stages of the self-test between a command's steps: the files
// where the domain is in force, the calls at the end. What comes first only
// tidies up for the command's program.
func stopping(steps []stub.Step) (s []stub.Step) {
	for _, step := range steps {
		s = append(s, step)
		if step.Name == stepLandlock {
			s = append(s, stub.Then(selftest.Files))
		}
	}
	return append(s, stub.Then(selftest.Calls))
}

// budgetOf is the limit on processes among the steps; 0 if there is none.
func budgetOf(steps []stub.Step) uint64 {
	for _, s := range steps {
		if s.Name == stub.Limit && s.Args[0] == unix.RLIMIT_NPROC {
			return s.Args[1]
		}
	}
	return 0
}

// throwaway starts a child of our own making and returns what it printed.
func (j *Jail) throwaway(listen func() (io.Closer, error), prepare prepare) (string, error) {
	var out, trouble bytes.Buffer
	c := Command{Args: []string{"/bin/sh", "-c", ":"}, Stdout: &out, Stderr: &trouble, Listen: listen,
		Timeout: startBound}
	p, err := j.begin(context.Background(), c, prepare)
	if err != nil {
		return "", err
	}
	if res := p.Wait(); res.ExitCode != 0 {
		return "", fmt.Errorf("a throw-away child: %+v %s", res, trouble.String())
	}
	return out.String(), nil
}

// unbuilt adds to a reason what the owner can do about it.
func unbuilt(err error) error {
	return errors.Join(fmt.Errorf("the jail cannot be built: %w", err), errors.New(
		"  To run without it, which loses every restriction but the account itself, start with MCP_JAIL=group "+
			"(docs/jail.md):\n"+
			"  commands could then read this server's token and the account's other files, signal its processes, use "+
			"the network,\n"+
			"  and leave processes behind."))
}
