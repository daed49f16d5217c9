package plugin

import (
	"fmt"
	"net/http"
	"strings"
)

// openMethods may be sent by every token. They show what is there; what they
// list is filtered by grants.
var openMethods = map[string]bool{
	"initialize": true, "server/discover": true, "ping": true, "logging/setLevel": true,
	"tools/list": true, "subscriptions/listen": true,
}

// hubTools are the tools of a hub's aggregate. The hub itself decides on the
// server and tool that they are aimed at.
var hubTools = map[string]bool{
	"list_servers": true, "list_tools": true, "get_tool_schema": true,
	"call_tool": true, "wake_server": true, "sleep_server": true,
}

// checkGrant refuses what the principal may not do. Streams, session ends and
// responses to the server's requests have no method.
func checkGrant(c *call) bool {
	g := c.who.grants
	m := c.message
	if c.e.hub || g.asking != nil || m.method == "subscriptions/listen" {
		return checkPlace(c) && checkMethod(c) && (!waits(c) || becomeStream(c))
	}
	return g.all || m.method == "" || g.tools[m.tool] || checkMethod(c)
}

// checkPlace is about where on a hub.
func checkPlace(c *call) bool {
	return !c.e.hub || c.who.grants.all || checkHubPlace(c)
}

// waits says whether a POST stays open for long, and so is counted as a stream:
// what a call of the aggregate is aimed at is the hub's to see.
func waits(c *call) bool {
	m := c.message
	asking := c.who.grants.asking
	switch {
	case m.method == "subscriptions/listen":
		return true
	case m.method != "tools/call":
		return false
	case asking == nil:
		return false
	case c.e.hub:
		return asksOnHub(c, asking)
	}
	return asking.all || asking.tools[m.tool]
}

func asksOnHub(c *call, asking *grants) bool {
	server := c.server
	if c.who.grants.all { // nobody has looked at the place yet
		server = hubServer(c)
	}
	if server == "hub" {
		return c.message.tool == "call_tool"
	}
	return asking.all || granted(asking, server, c.message.tool)
}

func checkMethod(c *call) bool {
	g := c.who.grants
	m := c.message
	switch {
	case g.all || m.method == "" || g.methods[m.method]:
		return true
	case m.method == "tools/call":
		return granted(g, c.server, m.tool) || rpcRefuse(c, refusedStatus(c), "tool", codeParams,
			fmt.Sprintf("the tool %q is not granted to %s", short(m.tool), c.who.id))
	case !m.resources && (openMethods[m.method] || strings.HasPrefix(m.method, "notifications/")):
		return true
	}
	return rpcRefuse(c, refusedStatus(c), "method", codeMethod, fmt.Sprintf("the method %q is not granted to %s",
		short(m.method), c.who.id))
}

// granted says whether a tool may be called: of a hub's server, of its
// aggregate ("hub"), or of a backend with one set of tools ("").
func granted(g *grants, server, tool string) bool {
	switch server {
	case "":
		return g.tools[tool]
	case "hub":
		return hubTools[tool] && len(g.servers) > 0
	}
	server = strings.TrimPrefix(server, "servers/")
	return g.whole[server] || g.tools[server+"/"+tool]
}

// hubServer is what a path on a hub is of: servers/NAME, hub for the aggregate,
// or nothing.
func hubServer(c *call) string {
	parts := strings.SplitN(strings.TrimPrefix(c.r.URL.Path[len(c.e.prefix):], "/"), "/", 3)
	switch {
	case parts[0] == "hub":
		return "hub"
	case parts[0] == "servers" && len(parts) > 1:
		return "servers/" + parts[1]
	}
	return ""
}

// checkHubPlace refuses, before it is woken, a server of which nothing is
// granted, and every part of the hub that is not a server's or the aggregate's.
func checkHubPlace(c *call) bool {
	g := c.who.grants
	server := hubServer(c)
	if (server == "hub" && len(g.servers) > 0) || g.servers[strings.TrimPrefix(server, "servers/")] {
		c.server = server
		return true
	}
	return refuse(c, http.StatusForbidden, "server", "nothing here is granted to "+c.who.id)
}

// refusedStatus is 200 for a client that reads the answer of its POST. A legacy
// client waits on its stream instead, and nobody waits for the answer to a
// notification: they get a status that they notice.
func refusedStatus(c *call) int {
	if c.message.id == nil || !strings.Contains(strings.ToLower(strings.Join(c.r.Header["Accept"], ",")),
		"text/event-stream") {
		return http.StatusForbidden
	}
	return http.StatusOK
}
