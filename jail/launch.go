package jail

import (
	"context"
	"errors"
	"io"
	"os"
	"time"

	"github.com/sallyport-dev/sallyport/jail/policy"
	"github.com/sallyport-dev/sallyport/jail/stub"
)

// startBound is how long a stub may take to become the command.
const startBound = 20 * time.Second

// launch is what a stub does before it becomes its program.
type launch struct {
	steps []stub.Step
	env   []string
	inner *os.File // the domain of the steps, if one of them enters it
	own   bool     // inner is this launch's alone
}

// prepare makes the launch of a child, on the thread that will start it.
type prepare func() (launch, error)

// start forks the stub, in a full jail from inside the outer domain, and waits
// until it has become the command.
func (p *Process) start(ctx context.Context, c Command, prepare prepare) error {
	if p.jail.cfg.Mode == policy.Full {
		if err := p.enter(&c); err != nil {
			return err
		}
	}
	status, child, err := os.Pipe()
	if err != nil {
		return err
	}
	defer status.Close()
	ours := &descriptors{child} // closed here as soon as the child has its copies
	defer ours.close()
	files := [stub.Descriptors]*os.File{0: c.Stdin, 1: ours.add(p.out.pipe(c.Stdout)),
		2:             ours.add(p.out.pipe(c.Stderr)),
		stub.StatusFD: child, stub.DirFD: c.Dir, stub.FilterFD: p.jail.filter}
	if c.Stdin == nil {
		files[0] = ours.add(os.Open(os.DevNull))
	}
	if files[0] == nil || files[1] == nil || files[2] == nil {
		return errors.New("no descriptors for the command's streams")
	}
	if files[stub.LeashFD], err = p.holdLeash(); err != nil {
		return err
	}
	ours.add(files[stub.LeashFD], nil)
	launch, err := prepare()
	if launch.own {
		ours.add(launch.inner, nil)
	}
	if err != nil {
		return err
	}
	files[stub.RulesFD] = launch.inner
	argv := stub.Argv(launch.steps, c.Args)
	p.forked, err = children.fork(argv, launch.env, files[:], p.jail.cfg.Mode == policy.Group)
	if err != nil {
		return err
	}
	ours.close()
	if err := ready(ctx, status); err != nil {
		return err
	}
	return p.meetWarden()
}

// enter takes the calling thread into the command's namespaces and into its
// outer domain, and leaves it no capability.
func (p *Process) enter(c *Command) (err error) {
	if policy.Has[policy.OwnNetwork](p.jail.rules) {
		if err := ownNetwork(); err != nil {
			return err
		}
		if c.Listen != nil {
			if p.listener, err = c.Listen(); err != nil {
				return err
			}
		}
	}
	if p.jail.mounts != nil {
		mounts, err := p.jail.mountsFor(c.Writable, c.Home)
		if err != nil {
			return err
		}
		if err := enterMounts(mounts); err != nil {
			return err
		}
		if c.Dir != nil {
			if c.Dir, err = reopen(c.Dir); err != nil {
				return err
			}
			p.dir = c.Dir
		}
	}
	if errOutside == nil {
		if err := noCapabilities(); err != nil {
			return err
		}
	}
	return p.jail.enterOuter()
}

// descriptors are files of this process that only a child needs.
type descriptors []*os.File

// add returns f, or nil where it could not be opened.
func (d *descriptors) add(f *os.File, err error) *os.File {
	if err != nil {
		return nil
	}
	*d = append(*d, f)
	return f
}

func (d *descriptors) close() {
	for _, f := range *d {
		f.Close()
	}
	*d = nil
}

// ready waits for the stub's exec, which closes the status pipe without
// writing to it. What it writes otherwise is why it failed.
func ready(ctx context.Context, status *os.File) error {
	status.SetReadDeadline(time.Now().Add(startBound))
	defer context.AfterFunc(ctx, func() { status.SetReadDeadline(time.Now()) })()
	said, err := io.ReadAll(io.LimitReader(status, 4096))
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return errors.New("the stub did not start the command in time")
	case len(said) > 0:
		return errors.New(string(said))
	}
	return nil
}
