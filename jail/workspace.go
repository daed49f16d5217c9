package jail

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// fallbackID is the uid and gid of commands where root owns the workspace: a
// number that no distribution gives out.
const fallbackID = 64321

// Workspace is a workspace directory and the identity that commands get.
type Workspace struct {
	Path     string   // what commands see
	UID, GID int      // the owner, never 0 when started as root
	Notices  []string // what was changed, to be said at start
}

// Prepare looks at a directory before anything else is opened. As root it may give the
// directory itself to 64321, and where the owner cannot enter an ancestor it
// takes a private mount namespace and executes the program again, in which
// case it does not return.
func Prepare(name string) (Workspace, error) {
	path, err := filepath.Abs(name)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return Workspace{}, fmt.Errorf("workspace: %w", err)
	}
	if path == "/" {
		return Workspace{}, errors.New("workspace: / is the whole machine")
	}
	ws := Workspace{Path: path, UID: os.Getuid(), GID: os.Getgid()}
	if missing, err := procfs.OpenToOwner(path); missing && err == nil {
		ws.Notices = append(ws.Notices, "workspace "+path+" was closed to its owner, by a command: it was opened again")
	}
	dir, err := os.OpenFile(path, unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return Workspace{}, fmt.Errorf("workspace: %w", err)
	}
	defer dir.Close()
	if os.Geteuid() != 0 {
		return ws, nil
	}
	return ws.forRoot(dir)
}

// system is what root never gives away, be it by a slip or by a link.
var system = regexp.MustCompile(`^/((bin|boot|dev|etc|lib|lib32|lib64|libx32|proc|run|sbin|sys|usr)(/.*)?|` +
	`(home|media|mnt|opt|root|srv|tmp|var)(/tmp|/lib|/log)?)$`)

// forRoot finds the identity that root gives itself up for.
func (w Workspace) forRoot(dir *os.File) (Workspace, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &stat); err != nil {
		return w, fmt.Errorf("workspace: %w", err)
	}
	w.UID, w.GID = int(stat.Uid), cmp.Or(int(stat.Gid), fallbackID)
	if w.UID == 0 {
		w.UID = fallbackID
		if system.MatchString(w.Path) {
			return w, fmt.Errorf("workspace %s belongs to root and to the system: it is not given to anybody, take "+
				"another", w.Path)
		}
		if name := roots(dir); name != "" {
			return w, fmt.Errorf("workspace %s belongs to root and holds files of root's, such as %s: commands never "+
				"run as root and could not work with them, "+
				"and git would refuse the repository, to root too once the directory has another owner. Three ways "+
				"out: serve another directory; "+
				"give all of it away (chown -R %d:%d %s); or serve a clone (git clone %s DIR && chown -R %d:%d DIR)",
				w.Path, name, w.UID, w.GID, w.Path, w.Path, w.UID, w.GID)
		}
		if err := dir.Chown(w.UID, w.GID); err != nil {
			return w, fmt.Errorf("workspace %s belongs to root and cannot be given to uid %d: %w; "+
				"start as another user (--user UID:GID) or chown it yourself", w.Path, w.UID, err)
		}
		w.Notices = append(w.Notices, fmt.Sprintf("workspace %s belonged to root: the directory itself (not its "+
			"contents) now belongs to %d:%d", w.Path, w.UID, w.GID))
	}
	w.Notices = append(w.Notices, fmt.Sprintf("started as root: continuing as %d:%d", w.UID, w.GID))
	return w.reachable()
}

// roots names an entry of dir that belongs to root, if there is one.
func roots(dir *os.File) string {
	entries, _ := dir.ReadDir(10_000)
	for _, d := range entries {
		var stat unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), d.Name(), &stat, unix.AT_SYMLINK_NOFOLLOW) == nil && stat.Uid == 0 {
			return d.Name()
		}
	}
	return ""
}

// DropRoot gives up root for the workspace's owner, and tries to regain it:
// success is an error. Without root it does nothing.
func (w Workspace) DropRoot() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if w.UID == 0 || w.GID == 0 {
		return fmt.Errorf("drop root: the workspace has no owner but root")
	}
	if errOutside == nil { // with what gives commands namespaces, in this one alone
		if _, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_KEEPCAPS, 1, 0); errno != 0 {
			return fmt.Errorf("drop root: keeping capabilities of the user namespace: %w", errno)
		}
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(w.GID, w.GID, w.GID),
		syscall.Setresuid(w.UID, w.UID, w.UID)); err != nil {
		return fmt.Errorf("drop root for %d:%d: %w", w.UID, w.GID, err)
	}
	if errOutside == nil {
		if err := setCapabilities(true, kept...); err != nil {
			return fmt.Errorf("drop root: %w", err)
		}
		// Another account no longer hears of its parent's end (PR_SET_PDEATHSIG(2const)).
		if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0); err != nil {
			return fmt.Errorf("drop root: %w", err)
		}
	}
	return w.regain()
}

// regain tries every way back.
func (w Workspace) regain() error {
	if syscall.Setuid(0) == nil || syscall.Setgid(0) == nil || syscall.Setgroups([]int{0}) == nil {
		return fmt.Errorf("drop root: root could be regained")
	}
	caps, err := capabilities()
	if err != nil {
		return err
	}
	if errOutside == nil {
		caps &^= bitsOf(kept)
	}
	if caps != 0 {
		return fmt.Errorf("drop root: capabilities are left (%#x)", caps)
	}
	return nil
}
