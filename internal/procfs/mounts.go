package procfs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// MountedSocket finds a socket that somebody mounted into a container, by
// itself or in a directory other than those given, and that is none of keyed. It
// is "" if there is none.
func MountedSocket(except, keyed []string) (string, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		fields := strings.Fields(line) // proc_pid_mountinfo(5): the fifth is where
		if len(fields) < 5 {
			continue
		}
		at, err := strconv.Unquote(`"` + strings.ReplaceAll(fields[4], `"`, `\"`) + `"`)
		if err != nil {
			return "", fmt.Errorf("mountinfo: %q", line)
		}
		if isSocket(at) && !slices.Contains(keyed, at) {
			return at, nil
		}
		if at == "/" || at == "/tmp" || slices.Contains(except, at) {
			continue // what lies there is the commands' own
		}
		entries, _ := os.ReadDir(at)
		for _, e := range entries {
			if path := filepath.Join(at, e.Name()); e.Type() == os.ModeSocket && !slices.Contains(keyed, path) {
				return path, nil
			}
		}
	}
	return "", nil
}

func isSocket(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == os.ModeSocket
}
