// Command sallyport-hub serves third-party MCP servers, each confined as mcp.json
// describes. A message meets the folders in this order: service (settings, who may
// enter), internal/mcphttp, aggregate, lifecycle, mux, upstream; pins is what the hub
// remembers.
package main

import (
	"github.com/sallyport-dev/sallyport/hub/service"
	"github.com/sallyport-dev/sallyport/internal/cli"
	"github.com/sallyport-dev/sallyport/internal/health"
)

func main() {
	cli.Program{
		Name:  "sallyport-hub",
		Intro: "Serves third-party MCP servers behind one address.",
		Start: "Without a command it serves.",
		Commands: []cli.Command{
			{Name: "serve", Help: "serve the servers of mcp.json (the default)", Main: service.Main},
			{Name: "health", Help: "ask a running hub whether it is well",
				Main: health.Command("sallyport-hub", "MCP_ADDR", "127.0.0.1:18081")},
		},
		Default: "serve",
		Moved:   map[string]string{"accept": "sallyport accept"},
	}.Main()
}
