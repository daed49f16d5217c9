// Package shared holds what the sandbox and the hub must do alike at their
// HTTP edge: settings, the bearer wall, the Host and Origin guard, the edge's
// headers, long-lived streams, sessions and their owners, the audit file and
// the log. It decides nothing about tools or servers.
package shared

// Version is the version that sandboxd reports to clients and prints.
const Version = "0.1.0"
