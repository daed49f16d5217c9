package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// settings of the process; none of them comes from the hub.
type settings struct {
	configPath, listenSocket, dockerSocket, secretsDir string
	secretsWatch                                       bool
	socketMode                                         os.FileMode
	hubUID                                             uint32
	instance                                           string
	poll                                               time.Duration // of mcp.json and secrets
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
	}
	switch v := value("SANDBOX_SECRETS_WATCH", "true"); v {
	case "true", "false":
		s.secretsWatch = v == "true"
	default:
		mistakes = append(mistakes, fmt.Errorf("SANDBOX_SECRETS_WATCH: %q is neither true nor false", v))
	}
	mode, err := strconv.ParseUint(value("SOCKET_MODE", "0660"), 8, 32)
	if s.socketMode = os.FileMode(mode); err != nil || mode&^0o660 != 0 || mode&0o600 != 0o600 {
		mistakes = append(mistakes, errors.New("SOCKET_MODE: must be 0600, 0620, 0640 or 0660: everyone who can open the socket can use it"))
	}
	uid, err := strconv.ParseUint(value("HUB_UID", strconv.Itoa(os.Getuid())), 10, 32)
	if s.hubUID = uint32(uid); err != nil {
		mistakes = append(mistakes, errors.New("HUB_UID: must be the number of a user"))
	}
	if !instanceName.MatchString(s.instance) {
		mistakes = append(mistakes, fmt.Errorf("INSTANCE: %q must be 1 to 16 of a-z and 0-9", s.instance))
	}
	if s.listenSocket == s.dockerSocket {
		mistakes = append(mistakes, errors.New("LISTEN_SOCKET and DOCKER_SOCKET are the same"))
	}
	return s, errors.Join(mistakes...)
}
