package imports

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// stdio converts a server that the other program starts itself.
func (c *conversion) stdio() bool {
	command, args := strings.TrimSpace(c.text("command")), []string{}
	list, _ := c.in["args"].([]any)
	for _, v := range list {
		args = append(args, c.variables("args", c.value("args", v)))
	}
	if command == "" {
		c.note("left out: it has neither a command nor a url")
		return false
	}
	if list == nil && strings.Contains(command, " ") { // some write one line
		parts := strings.Fields(command)
		command, args = parts[0], parts[1:]
	}
	env := map[string]any{}
	values, _ := c.in["env"].(map[string]any)
	for name, v := range values {
		s := c.variables("env."+name, c.value("env."+name, v))
		env[name] = s
		c.secret("env."+name, name, s)
	}
	base := strings.TrimSuffix(strings.TrimSuffix(path.Base(strings.ReplaceAll(command, `\`, "/")), ".exe"), ".cmd")
	if base == "cmd" && len(args) > 1 && strings.EqualFold(args[0], "/c") { // Windows
		base, args = strings.TrimSuffix(args[1], ".cmd"), args[2:]
	}
	switch base {
	case "docker", "podman":
		return c.docker(args, env)
	case "npx", "bunx", "pnpx":
		command, args = c.package1("npm install --prefix programs node@22", args)
	case "uvx", "pipx":
		command, args = c.package1("put its program into programs/bin:", args)
	}
	if command == "" {
		return false
	}
	c.out["command"] = c.variables("command", command)
	if len(args) > 0 {
		c.out["args"] = args
	}
	if len(env) > 0 {
		c.out["env"] = env
	}
	return true
}

var version = regexp.MustCompile(`(.)@[^@/]*$`)

// package1 names the program of a package that would be downloaded at each
// start, which a server without a network cannot do.
func (c *conversion) package1(install string, args []string) (program string, rest []string) {
	for i, arg := range args {
		switch {
		case arg == "run" || arg == "-y" || arg == "--yes" || arg == "-q":
			continue
		case strings.HasPrefix(arg, "-"):
			c.note("left out: the option %s of a downloading command; install the package in programs and write its "+
				"program as command", arg)
			return "", nil
		}
		name := version.ReplaceAllString(arg, "$1")
		program = strings.TrimPrefix(path.Base(name), "@")
		if scoped, ok := strings.CutPrefix(name, "@modelcontextprotocol/server-"); ok {
			program = "mcp-server-" + scoped
		}
		c.note("stdio servers have no network to download it: %s %s. Its program is taken to be %q; compare with ls "+
			"programs/node_modules/.bin", install, arg, program)
		return program, args[i+1:]
	}
	c.note("left out: it names no package")
	return "", nil
}

// docker converts a docker run line to an entry that the policy proxy derives a
// container from.
func (c *conversion) docker(args []string, env map[string]any) bool {
	if len(args) == 0 || args[0] != "run" {
		c.note(`left out: write {"type": "docker", "image": …} (docs/mcp-json.md)`)
		return false
	}
	for i := 1; i < len(args); i++ {
		arg := args[i]
		switch {
		case slices.Contains([]string{"-i", "--interactive", "--rm", "--init", "-it", "-t", "--pull=always"}, arg):
		case (arg == "-e" || arg == "--env") && i+1 < len(args):
			i++
			c.dockerEnv(args[i], env)
		case arg == "--name" || arg == "--pull":
			i++
		case strings.HasPrefix(arg, "-"):
			c.note("left out: the option %s of docker run; write an entry of type docker with its field "+
				"(docs/mcp-json.md)", arg)
			return false
		default:
			c.out["type"], c.out["image"] = "docker", arg
			if i+1 < len(args) {
				c.out["command"] = args[i+1:]
			}
			if len(env) > 0 {
				c.out["env"] = env
			}
			c.note(`has no network unless "network" names one, and its values can stay away from the hub with ` +
				`"secretsFrom" (docs/mcp-json.md)`)
			return true
		}
	}
	c.note("left out: docker run names no image")
	return false
}

func (c *conversion) dockerEnv(setting string, env map[string]any) {
	name, value, given := strings.Cut(setting, "=")
	switch {
	case given:
		env[name] = c.variables("env."+name, value)
		c.secret("env."+name, name, value)
	case env[name] == nil:
		env[name] = "${" + name + "}"
		c.note("put %s=… into config/hub.env", name)
	}
}
