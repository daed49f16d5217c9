package jail

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail/policy"
	"github.com/sallyport-dev/sallyport/jail/stub"
)

// A server that is killed cannot end its commands, and PR_SET_PDEATHSIG reaches
// a command's program alone. So each command has a warden (package stub): in the
// command's outer domain, where one kill(-1) reaches all of it.

// hasWarden says whether commands have one. A container ends with its first
// process, and a process group has no domain.
func (j *Jail) hasWarden() bool { return j.cfg.Mode == policy.Full && !j.cfg.InContainer }

// holdLeash makes the leash of a command's warden, and keeps this end. Nil where
// there is no warden.
func (p *Process) holdLeash() (end *os.File, err error) {
	if !p.jail.hasWarden() {
		return nil, nil
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the warden's leash: %w", err)
	}
	p.leash = os.NewFile(uintptr(fds[0]), "leash")
	return os.NewFile(uintptr(fds[1]), "leash"), nil
}

// meetWarden learns the warden's number. The stub has said it by now, or is none
// that leaves a warden behind.
func (p *Process) meetWarden() error {
	if p.leash == nil {
		return nil
	}
	var said [4]byte
	switch _, err := io.ReadFull(p.leash, said[:]); {
	case errors.Is(err, io.EOF):
	case err != nil:
		return fmt.Errorf("the warden: %w", err)
	default:
		p.warden = stub.PID(said)
	}
	return nil
}
