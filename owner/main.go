// Command sallyport is the owner's: it checks an installation, shows what its parts
// could do, and manages tokens. It runs by hand, with the owner's rights, and never
// in a process that serves requests.
package main

import (
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/owner/accept"
	"github.com/sallyport-dev/sallyport/owner/attack"
	"github.com/sallyport-dev/sallyport/owner/doctor"
	"github.com/sallyport-dev/sallyport/owner/plan"
	"github.com/sallyport-dev/sallyport/owner/token"
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
		{Name: "token", Help: "make, hash and check tokens", Words: "new hash check", Main: token.Main},
		{Name: "accept", Help: "accept changed tool definitions of a hub's server", Main: accept.Main},
	},
}
