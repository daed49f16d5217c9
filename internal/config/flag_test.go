package config

import "testing"

// The name of a flag is its variable's without the program's own prefix.
func TestFlag(t *testing.T) {
	for env, flag := range map[string]string{"MCP_BASE_PATH": "base-path", "LOGIN_ADDR": "addr", "IDLE_TIMEOUT_MINUTES": "idle-timeout-minutes"} {
		if got := (Setting{Env: env}).Flag(); got != flag {
			t.Errorf("%s: %s", env, got)
		}
	}
}
