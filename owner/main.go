// Command sallyport is the owner's: it checks an installation, shows what its parts
// could do, and manages tokens. It runs by hand, with the owner's rights, and never
// in a process that serves requests.
package main

import (
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/owner/accept"
	"github.com/sallyport-dev/sallyport/owner/approve"
	"github.com/sallyport-dev/sallyport/owner/attack"
	"github.com/sallyport-dev/sallyport/owner/audit"
	"github.com/sallyport-dev/sallyport/owner/doctor"
	"github.com/sallyport-dev/sallyport/owner/hosts"
	"github.com/sallyport-dev/sallyport/owner/imports"
	"github.com/sallyport-dev/sallyport/owner/plan"
	"github.com/sallyport-dev/sallyport/owner/token"
	"github.com/sallyport-dev/sallyport/owner/watch"
)

func main() { program.Main() }

var program = cli.Program{
	Name:  "sallyport",
	Intro: "Checks and manages an installation of Sallyport.",
	Start: "To start one: make run.",
	Commands: []cli.Command{
		{Name: "doctor", Help: "test every hop of the installation and print the fix", Main: doctor.Main},
		{Name: "attack", Help: "try the escapes on your own running installation", Main: attack.Main},
		{Name: "plan", Help: "print what a compromised part could do on this host", Main: plan.Main},
		{Name: "token", Help: "make, hash and check tokens", Words: "new key hash check", Main: token.Main},
		{Name: "hosts", Help: "ask package managers for the hosts they fetch from", Words: "go npm pip cargo apt",
			Main: hosts.Main},
		{Name: "approve", Help: "list what waits for you, or approve it", Main: approve.Approve},
		{Name: "deny", Help: "deny what waits", Main: approve.Deny},
		{Name: "watch", Help: "a page of what runs and waits; -notify runs your program for it", Main: watch.Main},
		{Name: "ps", Help: "list the calls and commands that run", Main: approve.PS},
		{Name: "output", Help: "print what a command has written", Main: approve.Output},
		{Name: "stop", Help: "end a call, command or session", Main: approve.Stop},
		{Name: "pause", Help: "refuse new calls until resume", Main: approve.Pause},
		{Name: "resume", Help: "end a pause", Main: approve.Resume},
		{Name: "sessions", Help: "list the open MCP sessions", Main: approve.Sessions},
		{Name: "servers", Help: "list the hub's servers", Main: approve.Servers},
		{Name: "audit", Help: "check and read the records of calls", Words: "verify tail grep show anchor",
			Main: audit.Main},
		{Name: "import", Help: "take another program's MCP servers into mcp.json", Main: imports.Main},
		{Name: "accept", Help: "accept changed tool definitions of a hub's server", Main: accept.Main},
	},
}
