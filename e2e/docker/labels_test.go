package docker

import (
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// The plugin page's example as container labels, read by Traefik's Docker
// provider from a real container. It shares the host's network, so that its
// port is the test server's.
func TestPluginFromLabels(t *testing.T) {
	d := rig.NeedImages(t)
	backend := httptest.NewServer(http.HandlerFunc(rig.ServeExample))
	defer backend.Close()
	_, port, _ := net.SplitHostPort(backend.Listener.Addr().String())
	token, _ := rig.NewToken(t)
	text := strings.Join(rig.Examples(t, "plugin.md", "yaml", token), "")
	args := []string{"--network", "host", "--label", "sallyport.test=" + d.Name, "--label", "traefik.http.services.mcp.loadbalancer.server.port=" + port,
		"--label", "traefik.http.routers.mcp.entrypoints=web"}
	labels := regexp.MustCompile(`(?m)^  - "(traefik\..*)"$`).FindAllStringSubmatch(text, -1)
	if len(labels) < 9 {
		t.Fatalf("the page has %d labels", len(labels))
	}
	for _, label := range labels {
		args = append(args, "--label", label[1])
	}
	d.Container(append(args, tools.DebianImage, "sleep", "600")...)
	tr := rig.StartTraefik(t, rig.TraefikOptions{Args: []string{"--providers.docker=true", "--providers.docker.constraints=Label(`sallyport.test`,`" + d.Name + "`)"}})
	rig.Until(t, "Traefik to read the labels", func() bool { return rig.Status(tr.Web+"/mcp/mcp") == 401 }, tr.Process)
	rig.CheckExample(t, tr.Web+"/mcp/mcp", token)
}
