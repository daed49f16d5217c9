package tool

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// goBin is where the Go toolchain lies in the image.
const goBin = "/usr/local/go/bin"

// maxCommand is the largest command, in bytes. The kernel's limit for one
// argument is 128 KiB (execve(2), MAX_ARG_STRLEN).
const maxCommand = 100 << 10

// environment is the whole environment of a command. Nothing of the server's
// own is inherited.
func (s *Set) environment() []string {
	private := s.cfg.Private
	return []string{
		"HOME=" + filepath.Join(private, "home"),
		"PATH=" + goBin + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"TMPDIR=" + private,
		"LANG=C.UTF-8",
		"TERM=dumb",
		"USER=sandbox",
		"GOCACHE=" + filepath.Join(private, "go-cache"),
		"GOPATH=" + filepath.Join(private, "go"),
	}
}

// privateDirs makes the directories that the environment names. A command may
// have removed them, or put a symbolic link in their place: Mkdir through an
// os.Root follows none.
func (s *Set) privateDirs() {
	for _, name := range []string{"home", "go-cache", "go"} {
		s.private.Mkdir(name, 0o700)
	}
}

// shell is the argument vector for a command. /etc/profile, which a login shell
// reads, sets PATH anew; the words put before the command give it Go's
// directory back. They stand on its first line, so that line numbers in the
// shell's messages are the command's own.
func shell(command string) []string {
	return []string{"/bin/sh", "-lc", `case ":$PATH:" in *:` + goBin + `:*) ;; *) PATH="$PATH:` + goBin + `" ;; esac; ` + command}
}

func checkCommand(command string) error {
	switch {
	case strings.TrimSpace(command) == "":
		return errors.New("the command is empty: give one for /bin/sh, such as ls -la")
	case len(command) > maxCommand:
		return fmt.Errorf("the command is %d bytes long: at most %d are passed to the shell; write it to a file and run that", len(command), maxCommand)
	case strings.ContainsRune(command, 0):
		return errors.New("the command contains a NUL byte")
	}
	return nil
}
