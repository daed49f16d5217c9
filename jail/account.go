package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// accountName is how commands see an account that the machine has no name for.
const accountName = "sandbox"

// nameAccount gives this account and its group a line in /etc/passwd and
// /etc/group, where there is none: without one ssh, initdb and whoami refuse to
// work. The calling thread's mount namespace alone sees it.
func nameAccount(home string) error {
	uid, gid := os.Getuid(), os.Getgid()
	if strings.ContainsAny(home, ":\n") {
		home = "/" // passwd(5) cannot say it
	}
	return errors.Join(addLine("/etc/passwd", uid, fmt.Sprintf(":x:%d:%d::%s:/bin/sh\n", uid, gid, home)),
		addLine("/etc/group", gid, fmt.Sprintf(":x:%d:\n", gid)))
}

// addLine mounts a copy of file with one more line over it, unless one of its
// lines has the id in the third field, as both files have it. rest is the line
// without the name.
func addLine(file string, id int, rest string) error {
	raw, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing to mount it over
	}
	if err != nil {
		return err
	}
	text := string(raw)
	name := accountName
	for known := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(known), ":")
		if len(fields) > 2 && fields[2] == strconv.Itoa(id) {
			return nil
		}
		if fields[0] == name {
			name += "-" + strconv.Itoa(id)
		}
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	copied, err := os.CreateTemp("/tmp", ".sallyport-") // commands have not been in this /tmp yet
	if err != nil {
		return err
	}
	defer os.Remove(copied.Name())
	_, err = copied.WriteString(text + name + rest)
	if err := errors.Join(err, copied.Chmod(0o444), copied.Close()); err != nil {
		return err
	}
	if err := unix.Mount(copied.Name(), file, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	set := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, file, 0, &set); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
