// Command peer serves read_file of one folder with mcp-go, over SSE at /sse and
// streamable HTTP at /mcp: what the figures of sandboxd stand beside.
package main

import (
	"context"
	"flag"
	"log"
	"net/http"
	"os"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

func main() {
	addr := flag.String("addr", "", "host:port")
	dir := flag.String("dir", "", "the folder")
	flag.Parse()
	root, err := os.OpenRoot(*dir)
	if err != nil {
		log.Fatal(err)
	}
	s := server.NewMCPServer("peer", "1")
	s.AddTool(mcp.NewTool("read_file", mcp.WithString("path", mcp.Required())),
		func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			data, err := root.ReadFile(r.GetString("path", ""))
			if err != nil {
				return mcp.NewToolResultError(err.Error()), nil
			}
			return mcp.NewToolResultText(string(data)), nil
		})
	mux := http.NewServeMux()
	mux.Handle("/mcp", server.NewStreamableHTTPServer(s))
	mux.Handle("/", server.NewSSEServer(s))
	log.Fatal(http.ListenAndServe(*addr, mux))
}
