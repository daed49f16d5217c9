package serve

import (
	"errors"

	"github.com/sallyport-dev/sallyport/sandboxd/shared"
)

// granted are the directories that the jail lets a command read, beside the
// workspace.
var granted = []string{"/bin", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/sbin", "/usr"}

// outside refuses a token or audit file that a command could reach.
func outside(set Settings) error {
	dirs := append([]string{set.Workspace}, granted...)
	if set.InContainer {
		dirs = append(dirs, "/tmp", "/dev/shm")
	}
	var errs []error
	if set.TokenFile != "" {
		errs = append(errs, shared.Outside("MCP_AUTH_TOKEN_FILE", set.TokenFile, dirs))
	}
	if set.AuditFile != "" && set.AuditFile != "-" {
		errs = append(errs, shared.Outside("MCP_AUDIT_FILE", set.AuditFile, dirs))
	}
	return errors.Join(errs...)
}
