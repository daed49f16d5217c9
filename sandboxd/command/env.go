package command

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sallyport-dev/sallyport/jail"
)

// maxLine is the largest command, in bytes. The kernel's limit for one
// argument is 128 KiB (execve(2), MAX_ARG_STRLEN).
const maxLine = 100 << 10

// environment is the whole environment of a command whose person has the private
// directory dir. Nothing of the server's own is inherited, and no file sets
// anything more: a login shell would read profiles that belong to whoever wrote
// them, at four times the cost of the shell itself.
func environment(dir string, network jail.Network) []string {
	home, temp, path := filepath.Join(dir, "home"), filepath.Join(dir, "tmp"), filepath.Join(dir, "go")
	env := []string{
		"HOME=" + home,
		// Go's toolchain lies there in the image.
		"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" +
			filepath.Join(home, ".local/bin") + ":" + filepath.Join(path, "bin"),
		"TMPDIR=" + temp,
		"LANG=C.UTF-8",
		"TERM=dumb",
		"USER=sandbox",
		"LOGNAME=sandbox",
		"GOCACHE=" + filepath.Join(dir, "go-cache"),
		"GOPATH=" + path,
		// Java asks neither HOME nor TMPDIR.
		"JAVA_TOOL_OPTIONS=-Djava.io.tmpdir=" + temp + " -Duser.home=" + home,
		// It needs ptrace, which is refused, and without it fails each program that
		// was built with the address sanitizer.
		"ASAN_OPTIONS=detect_leaks=0",
		// What git detaches would be ended with the command, half done: its lock
		// would stay and stop the owner's own gc for good.
		"GIT_CONFIG_COUNT=2",
		"GIT_CONFIG_KEY_0=gc.autoDetach", "GIT_CONFIG_VALUE_0=false",
		"GIT_CONFIG_KEY_1=maintenance.autoDetach", "GIT_CONFIG_VALUE_1=false",
	}
	if network == jail.None {
		// Without a network each further try is time lost.
		env = append(env, "npm_config_fetch_retries=0", "npm_config_update_notifier=false", "npm_config_audit=false",
			"PIP_RETRIES=0", "PIP_DISABLE_PIP_VERSION_CHECK=1", "CARGO_NET_RETRY=0")
	}
	return env
}

// shell is the argument vector for a command.
func shell(line string) []string { return []string{"/bin/sh", "-c", line} }

func checkLine(line string) error {
	switch {
	case strings.TrimSpace(line) == "":
		return errors.New("the command is empty: give one for /bin/sh, such as ls -la")
	case len(line) > maxLine:
		return fmt.Errorf("the command is %d bytes long: at most %d are passed to the shell; write it to a file and "+
			"run that", len(line), maxLine)
	case strings.ContainsRune(line, 0):
		return errors.New("the command contains a NUL byte")
	}
	return nil
}
