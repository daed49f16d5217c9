package serve

import (
	_ "github.com/modelcontextprotocol/go-sdk/mcp"
	_ "golang.org/x/sys/unix"
)
