package jsonrpc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/internal/jsonrpc"
)

// BenchmarkParse is what reading a call costs, short and of 1 MiB.
func BenchmarkParse(b *testing.B) {
	for _, size := range []int{20, 1 << 20} {
		raw := []byte(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"write_file",` +
			`"arguments":{"path":"a.txt","content":"` + strings.Repeat("x", size) + `"},"_meta":{"progressToken":7}}}`)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				m, err := jsonrpc.Parse(raw)
				if err != nil || m.Text(m.Param("name")) != "write_file" {
					b.Fatal(err)
				}
			}
		})
	}
}
