package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// goBin is where the Go toolchain lies in the image.
const goBin = "/usr/local/go/bin"

// maxLine is the largest command, in bytes. The kernel's limit for one
// argument is 128 KiB (execve(2), MAX_ARG_STRLEN).
const maxLine = 100 << 10

// environment is the whole environment of a command. Nothing of the server's
// own is inherited.
func environment(private string) []string {
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
func (r *Runner) privateDirs() {
	for _, name := range []string{"home", "go-cache", "go"} {
		r.private.Mkdir(name, 0o700)
	}
}

// shell is the argument vector for a command. /etc/profile, which a login shell
// reads, sets PATH anew; the words put before the command give it Go's
// directory back. They stand on its first line, so that line numbers in the
// shell's messages are the command's own.
func shell(line string) []string {
	return []string{"/bin/sh", "-lc", `case ":$PATH:" in *:` + goBin + `:*) ;; *) PATH="$PATH:` + goBin + `" ;; esac; ` + line}
}

func checkLine(line string) error {
	switch {
	case strings.TrimSpace(line) == "":
		return errors.New("the command is empty: give one for /bin/sh, such as ls -la")
	case len(line) > maxLine:
		return fmt.Errorf("the command is %d bytes long: at most %d are passed to the shell; write it to a file and run that", len(line), maxLine)
	case strings.ContainsRune(line, 0):
		return errors.New("the command contains a NUL byte")
	}
	return nil
}
