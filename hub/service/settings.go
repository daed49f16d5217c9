package service

import (
	"fmt"
	"time"

	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/jail"
)

// Settings are all settings of the hub.
type Settings struct {
	config.HTTP
	ServersFile string // mcp.json
	ProxySocket string // of the policy proxy, for docker entries
	StateDir    string // snapshots, accepted tool definitions, private directories
	IdleMinutes int    // until an unused server sleeps; 0: never
	CallTimeout time.Duration
	Jail        jail.Mode // of stdio entries
	MaxSessions int
	Programs    string // programs of stdio entries; "" where there are none
	MaxTasks    int    // processes and threads of all stdio servers and the hub together
	config.Owner
}

// Table lists the settings.
func (s *Settings) Table() config.Table {
	return config.Table{
		Command: "sallyport-hub",
		Intro: "Serves the MCP servers of mcp.json at <base>/servers/NAME/mcp and /sse, and all of them at " +
			"<base>/hub/mcp.\n`sallyport accept NAME` shows the changed tool definitions of a server, and how to " +
			"accept them.",
		Settings: append([]config.Setting{
			{Env: "MCP_STATE_DIR", Required: true, Set: config.Text(&s.StateDir),
				Help: "directory of the hub's own: snapshots, accepted tool definitions, private directories of " +
					"stdio servers"},
			{Env: "MCP_SERVERS_FILE", Default: "/config/mcp.json", Set: config.Text(&s.ServersFile),
				Help: "the servers; an edit takes effect within seconds"},
			{Env: "MCP_PROXY_SOCKET", Default: "/run/proxy/docker.sock", Set: config.Text(&s.ProxySocket),
				Help: "socket of the policy proxy, for docker entries; never Docker's own"},
			{Env: "IDLE_TIMEOUT_MINUTES", Default: "60", Set: config.Number(&s.IdleMinutes, 0, 525600),
				Help: "minutes until an unused server is put to sleep; 0: never"},
			{Env: "MCP_CALL_TIMEOUT", Default: "5m", Set: config.Duration(&s.CallTimeout, time.Second, 24*time.Hour),
				Help: "the longest that one call may take, whatever progress it reports"},
			{Env: "MCP_MAX_SESSIONS", Default: "256", Set: config.Number(&s.MaxSessions, 1, 100_000),
				Help: "sessions open at once; further ones get 503, unless somebody has an eighth more than the asker"},
			{Env: "MCP_PROGRAMS", Default: "/programs", Set: config.Text(&s.Programs),
				Help: "directory of programs for stdio servers, which they may read: its bin and node_modules/.bin " +
					"stand first in their PATH; it may be missing"},
			{Env: "MCP_MAX_PROCESSES", Default: "1024", Set: config.Number(&s.MaxTasks, 64, 1_000_000),
				Help: "processes and threads of the hub and all stdio servers together (in a container at most its " +
					"pids limit less 48); when they are used up, the server that is idle longest is evicted"},
			{Env: "MCP_JAIL", Default: string(jail.Full), Set: config.OneOf(&s.Jail, jail.Full, jail.Group),
				Help: "how stdio servers are held: full, or group: the downgrade for kernels before 6.12"},
		}, append(s.HTTP.Settings("127.0.0.1:18081", "/mcp-hub"), s.Owner.Settings()...)...),
	}
}

// Parse reads args and the environment. The error names every mistake; with -h
// it is flag.ErrHelp.
func Parse(args []string, env config.Lookup) (Settings, error) {
	var s Settings
	m, err := s.Table().Parse(args, env)
	if err != nil {
		return Settings{}, err
	}
	s.HTTP.Check(m)
	s.Owner.Check(m)
	if s.BasePath == "" && m.Err() == nil {
		m.AddError(fmt.Errorf("MCP_BASE_PATH: the hub needs a path of its own, such as /mcp-hub"))
	}
	// A stdio server must not reach the token, the state or what is the owner's.
	private := s.Owner.Private()
	private["MCP_AUTH_TOKEN_FILE"], private["MCP_STATE_DIR"] = s.TokenFile, s.StateDir
	for setting, path := range private {
		if path != "" {
			m.AddError(config.Outside(setting, path, jail.Config{Mode: s.Jail}.Grants))
		}
	}
	return s, m.Err()
}
