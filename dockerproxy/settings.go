package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// settings of the process; none of them comes from the hub.
type settings struct {
	configPath, listenSocket, dockerSocket, secretsDir string
	secretsWatch                                       bool
	socketMode                                         os.FileMode
	hubUID                                             uint32
	instance                                           string
	forbidden                                          []string      // host paths that no bind source may touch
	poll                                               time.Duration // of mcp.json and secrets
	reapEvery                                          time.Duration // how often leftovers are looked for
}

var instanceName = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

// readSettings reports every mistake at once.
func readSettings(getenv func(string) string) (settings, error) {
	var mistakes []error
	value := func(name, fallback string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return fallback
	}
	path := func(name, fallback string) string {
		v := value(name, fallback)
		if !filepath.IsAbs(v) {
			mistakes = append(mistakes, fmt.Errorf("%s: %q must be an absolute path", name, v))
		}
		return v
	}
	s := settings{
		configPath:   path("CONFIG_PATH", "/config/mcp.json"),
		listenSocket: path("LISTEN_SOCKET", "/run/proxy/docker.sock"),
		dockerSocket: path("DOCKER_SOCKET", "/var/run/docker.sock"),
		secretsDir:   path("SANDBOX_SECRETS_DIR", "/run/secrets"),
		instance:     value("INSTANCE", "sallyport"),
		poll:         time.Second,
		reapEvery:    30 * time.Second,
	}
	switch v := value("SANDBOX_SECRETS_WATCH", "true"); v {
	case "true", "false":
		s.secretsWatch = v == "true"
	default:
		mistakes = append(mistakes, fmt.Errorf("SANDBOX_SECRETS_WATCH: %q is neither true nor false", v))
	}
	mode, err := strconv.ParseUint(value("SOCKET_MODE", "0660"), 8, 32)
	if s.socketMode = os.FileMode(mode); err != nil || mode&^0o660 != 0 || mode&0o600 != 0o600 {
		mistakes = append(mistakes, errors.New("SOCKET_MODE: must be 0600, 0620, 0640 or 0660: everyone who can open "+
			"the socket can use it"))
	}
	uid, err := strconv.ParseUint(value("HUB_UID", strconv.Itoa(os.Getuid())), 10, 32)
	if s.hubUID = uint32(uid); err != nil {
		mistakes = append(mistakes, errors.New("HUB_UID: must be the number of a user"))
	}
	if !instanceName.MatchString(s.instance) {
		mistakes = append(mistakes, fmt.Errorf("INSTANCE: %q must be 1 to 16 of a-z and 0-9", s.instance))
	}
	if s.forbidden, err = forbiddenSources(getenv("FORBIDDEN_SOURCES")); err != nil {
		mistakes = append(mistakes, err)
	}
	if s.listenSocket == s.dockerSocket {
		mistakes = append(mistakes, errors.New("LISTEN_SOCKET and DOCKER_SOCKET are the same"))
	}
	return s, errors.Join(mistakes...)
}

// forbiddenSources reads FORBIDDEN_SOURCES. This process does not see the
// host's file system, so it must be told where commands of the sandbox write.
func forbiddenSources(value string) ([]string, error) {
	switch value {
	case "":
		return nil, errors.New("FORBIDDEN_SOURCES is required: the host's paths of the workspace and of this " +
			"installation, with : between them " +
			"(make env writes SALLYPORT_FORBIDDEN_SOURCES into .env), or none where no sandbox runs on this host")
	case "none":
		return nil, nil
	}
	var all []string
	for p := range strings.SplitSeq(value, ":") {
		if !filepath.IsAbs(p) || filepath.Clean(p) != p || p == "/" {
			return nil, fmt.Errorf("FORBIDDEN_SOURCES: %q must be an absolute path below / without . and .. and "+
				"without a slash at its end", p)
		}
		all = append(all, p)
	}
	return all, nil
}
