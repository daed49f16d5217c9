package serve_test

import (
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/sallyport-dev/sallyport/internal/process"
)

// One call of a tool that does nothing, through everything around it: the cost
// of the restrictions and of the SDK, server and client together.
func BenchmarkCall(b *testing.B) {
	process.TuneMemory(process.Busy)
	for transport := range transports {
		b.Run(transport, func(b *testing.B) {
			s := start(b, nil)
			c, _ := connect(b, s, transport, as("token:poke", "*"))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallTool(b.Context(),
					&mcp.CallToolParams{Name: "read_file", Arguments: input{Size: 1024}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
