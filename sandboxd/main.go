// Command sandboxd serves one directory to MCP clients: tools that run commands and
// read and write files, each restricted by the kernel.
package main

import (
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/health"
	"github.com/sallyport-dev/sallyport/sandboxd/serve"
)

// moved are the commands of version 0.1, when one binary held every trust domain.
var moved = map[string]string{
	"hub":    "sallyport-hub (and sallyport accept for what was hub accept)",
	"local":  "make run, which starts bin/sallyport-run",
	"doctor": "sallyport doctor",
	"attack": "sallyport attack",
	"plan":   "sallyport plan",
	"token":  "sallyport token",
}

func main() {
	cli.Program{
		Name:  "sandboxd",
		Intro: "Serves one directory to MCP clients.",
		Start: "Without a command it serves. To start: make run.",
		Commands: []cli.Command{
			{Name: "serve", Help: "serve one directory to MCP clients (the default)", Main: serve.Main},
			{Name: "health", Help: "ask a running server whether it is well",
				Main: health.Command("sandboxd", "MCP_ADDR", "127.0.0.1:18080")},
		},
		Default: "serve",
		Moved:   moved,
	}.Main()
}
