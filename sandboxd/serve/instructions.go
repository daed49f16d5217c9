package serve

import (
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/jail"
)

// instructions tell a model what it needs before its first call, so that it
// does not spend calls on finding the limits.
func instructions(set Settings) string {
	lines := []string{
		"You work inside one directory (the workspace) of the owner's machine. Paths are relative to it; nothing " +
			"outside it can be read or written.",
		"File tools work on UTF-8 text of at most 1 MiB; edit a file by reading it first.",
	}
	if slices.Contains(set.Tools, "run_command") {
		lines = append(lines,
			"run_command runs /bin/sh in the workspace. Temporary files belong in $TMPDIR; HOME, TMPDIR and caches "+
				"are your own and last between commands. Every process that a command started is gone when it ends. "+
				"It has 30 seconds unless timeout_seconds says otherwise, 120 at most.")
		if slices.Contains(set.Tools, "start_command") {
			lines = append(lines, "For longer work use start_command, and read on with command_output.")
		}
		switch set.Network {
		case jail.Container:
			lines = append(lines, "Commands may use loopback and what network the owner's container has.")
		case jail.Allowlist:
			lines = append(lines, "Commands reach listed hosts only; the description of run_command names them. When "+
				"a host is refused, tell the user which egress rule is needed instead of retrying.")
		default:
			lines = append(lines, "Commands have no network at all, not even loopback: do not try to download, "+
				"install from a registry, clone or push.")
		}
	}
	lines = append(lines, "A failed call says what went wrong and what to do; a command's exit code other than 0 is "+
		"a result like any other.")
	return strings.Join(lines, "\n")
}
