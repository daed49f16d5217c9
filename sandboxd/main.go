// Command sandboxd lets an MCP client work inside one directory. Its
// subcommands are separate processes with separate trust.
package main

import (
	"fmt"
	"os"

	"github.com/sallyport-dev/sallyport/sandboxd/jail"
)

func main() {
	jail.StubMain()
	fmt.Fprintln(os.Stderr, "sandboxd: not built yet")
	os.Exit(2)
}
