package mcpjson

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/strictjson"
)

// TmpfsDefault is what every tmpfs gets; of it only noexec and the mode can
// be changed. The size counts against the container's memory.
const TmpfsDefault = "rw,noexec,nosuid,nodev,mode=1777"

// forbidden host paths: never a source, nor above or below one.
var forbidden = []string{"/proc", "/sys", "/dev", "/etc", "/boot", "/root", "/run", "/var/run", "/var/lib/docker"}

// within reports whether p is dir or lies inside it; both are clean.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// readVolume reads source:/target[:ro].
func readVolume(s string) (Volume, error) {
	parts := strings.Split(s, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return Volume{}, errors.New("must be source:/target or source:/target:ro")
	}
	v := Volume{Source: parts[0], Target: parts[1], ReadOnly: len(parts) == 3}
	if v.ReadOnly && parts[2] != "ro" {
		return v, fmt.Errorf("the only option is ro, not %q", parts[2])
	}
	if v.Named() {
		if !objectName.MatchString(v.Source) {
			return v, fmt.Errorf("the source %q is neither an absolute path nor the name of a volume", v.Source)
		}
	} else if err := checkSource(&v); err != nil {
		return v, err
	}
	return v, CheckTarget(v.Target)
}

func checkSource(v *Volume) error {
	v.Source = path.Clean(v.Source)
	for _, p := range forbidden {
		if within(v.Source, p) || within(p, v.Source) {
			return fmt.Errorf("the source %s gives away %s of the host, which is never allowed", v.Source, p)
		}
	}
	return nil
}

// CheckTarget reports why target cannot be a mount point: it must be absolute,
// clean and not a path that Docker or the kernel needs.
func CheckTarget(target string) error {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" {
		return fmt.Errorf("%q must be an absolute path below / without . and ..", target)
	}
	for _, p := range []string{"/proc", "/sys", "/dev"} {
		if within(target, p) {
			return fmt.Errorf("%s lies in the container's %s", target, p)
		}
	}
	return nil
}

var tmpfsOption = regexp.MustCompile(`^(` +
	`rw|ro|exec|noexec|nosuid|nodev|size=[1-9][0-9]{0,12}[kmg]?|mode=[01]?[0-7]{3}|` +
	`uid=[0-9]{1,9}|gid=[0-9]{1,9}|nr_inodes=[1-9][0-9]{0,9}[kmg]?)$`)

// readTmpfs reads "/path" and "/path:options" into paths and whole options.
func readTmpfs(r *strictjson.Reader, field string, v any) map[string]string {
	all := map[string]string{}
	for i, s := range literals(r, field, v) {
		target, options, _ := strings.Cut(s, ":")
		err := CheckTarget(target)
		if _, found := all[target]; found {
			err = errors.New("is there more than once")
		}
		if err == nil {
			all[target], err = tmpfsOptions(options)
		}
		if err != nil {
			r.Fail(fmt.Sprintf("%s[%d] %q", field, i, s), "%v", err)
		}
	}
	return all
}

func tmpfsOptions(s string) (string, error) {
	access, exec, mode, more := "rw", "noexec", "mode=1777", ""
	if s == "" {
		return TmpfsDefault, nil
	}
	for option := range strings.SplitSeq(s, ",") {
		name, _, _ := strings.Cut(option, "=")
		switch {
		case option == "suid" || option == "dev":
			return "", fmt.Errorf("the option %s is never allowed", option)
		case !tmpfsOption.MatchString(option):
			return "", fmt.Errorf("%q is not an option: rw, ro, exec, noexec, size=, mode=, uid=, gid=, nr_inodes=",
				option)
		case name == "rw" || name == "ro":
			access = option
		case name == "exec" || name == "noexec":
			exec = option
		case name == "mode":
			mode = option
		case name != "nosuid" && name != "nodev":
			more += "," + option
		}
	}
	return access + "," + exec + ",nosuid,nodev," + mode + more, nil
}

// checkTargets refuses two mounts at one place.
func checkTargets(r *strictjson.Reader, c *DockerOptions) {
	seen := map[string]string{}
	maps.Copy(seen, c.Tmpfs)
	for _, v := range c.Volumes {
		if _, found := seen[v.Target]; found {
			r.Fail("volumes", "%s is mounted more than once (the default tmpfs is /tmp)", v.Target)
		}
		seen[v.Target] = ""
	}
}

// checkNested breaks every docker entry with a writable bind that strictly
// contains another source: whoever writes there could put a symlink in that
// place, and Docker would follow it to any path of the host.
func (c *Config) checkNested() {
	names := slices.Sorted(maps.Keys(c.Servers))
	broken := map[string]error{}
	for _, outer := range names {
		for _, inner := range names {
			for _, v := range c.Servers[outer].Container.Volumes {
				for _, w := range c.Servers[inner].Container.Volumes {
					if v.Named() || w.Named() || v.ReadOnly || v.Source == w.Source || !within(w.Source, v.Source) {
						continue
					}
					broken[outer] = strictjson.Mistakes{fmt.Sprintf("volumes: %s is writable and contains %s, a "+
						"source of %q: a symlink put there would be followed on the host", v.Source, w.Source, inner)}
				}
			}
		}
	}
	for name, err := range broken {
		delete(c.Servers, name)
		c.Broken[name] = err
	}
}

// Forbid breaks every docker entry with a bind source at, under or above one of
// the paths (absolute, clean, of the host). Who may write there could swap the
// source for a link, and Docker would follow it to any path of the host; a
// read-only mount does not help.
func (c *Config) Forbid(paths []string) {
	for name, e := range c.Servers {
		var m strictjson.Mistakes
		for _, v := range e.Container.Volumes {
			for _, p := range paths {
				if !v.Named() && (within(v.Source, p) || within(p, v.Source)) {
					m = append(m, fmt.Sprintf("volumes: the source %s lies at, under or above %s "+
						"(FORBIDDEN_SOURCES), where a command of the sandbox could put a link "+
						"to anything on this host; name another directory, and let the sandbox's own tools read the "+
						"workspace", v.Source, p))
				}
			}
		}
		if len(m) > 0 {
			delete(c.Servers, name)
			c.Broken[name] = m
		}
	}
}
