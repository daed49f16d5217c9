package mcphttp

import "slices"

// Stateless is the first version of MCP without sessions.
const Stateless = "2026-07-28"

// Versions of MCP that have sessions, oldest first.
var Versions = []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"}

// Known reports a version with sessions. An absent header is one too: it
// stands for 2025-03-26 (MCP 2025-11-25, transports, Protocol Version Header).
func Known(version string) bool { return version == "" || slices.Contains(Versions, version) }

// The HTTP headers of MCP, as net/http writes them.
const (
	versionHeader = "Mcp-Protocol-Version"
	sessionHeader = "Mcp-Session-Id"
	methodHeader  = "Mcp-Method"
	nameHeader    = "Mcp-Name"
)

// Keys in a message's params._meta.
const (
	capabilitiesKey = "io.modelcontextprotocol/clientCapabilities"
	// SubscriptionKey ties a notification to the subscriptions/listen that asked
	// for it.
	SubscriptionKey = "io.modelcontextprotocol/subscriptionId"
)
