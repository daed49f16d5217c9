// Package process is what every server process does alike at its start and at
// its end: version, log, memory limits and signals.
package process

// Version is what the binaries print and report to clients.
const Version = "0.2.0"
