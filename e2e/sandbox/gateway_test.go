package sandbox

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// A bridge without masquerading and without traffic between containers still
// reaches what the host binds on all addresses, by the gateway's. The jail's
// commands do not.
func TestGatewayIsOutOfReachForCommands(t *testing.T) {
	d := rig.NeedImages(t)
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	page := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("a page of the host")) })}
	go page.Serve(l)
	defer page.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())

	network := d.Network("-o", "com.docker.network.bridge.enable_icc=false", "-o", "com.docker.network.bridge.enable_ip_masquerade=false", d.Name)
	gateway := d.Run("network", "inspect", "-f", "{{(index .IPAM.Config 0).Gateway}}", network)
	for _, mode := range []string{"none", "container"} {
		id := d.Container(serve(t, "--network", network, "-p", "127.0.0.1::8000", "-e", "MCP_COMMAND_NETWORK="+mode)...)
		addr := strings.TrimSpace(d.Run("port", id, "8000"))
		rig.Until(t, "the sandbox's health", func() bool { return rig.Status("http://"+addr+"/healthz") == 200 })
		fetch := "exec 3<>/dev/tcp/" + gateway + "/" + port + " && printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3 && cat <&3"
		if out, err := d.Try("exec", id, "bash", "-c", fetch); err != nil || !strings.Contains(out, "a page of the host") {
			t.Fatalf("the container itself cannot read the page, so this test shows nothing: %v %s", err, out)
		}
		session := rig.Connect(t, "http://"+addr+"/mcp-sandbox", strings.Repeat("t", 43), rig.Streamable)
		res := rig.TryCall(t, session, "run_command", rig.Args{"command": "bash -c '" + strings.ReplaceAll(fetch, "'", `'\''`) + "'"})
		said := rig.Text(res)
		if read := strings.Contains(said, "a page of the host"); read != (mode == "container") {
			t.Errorf("network %s: read %v: %s", mode, read, said)
		}
	}
}
