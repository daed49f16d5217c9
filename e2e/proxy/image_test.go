package proxy

import (
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/sallyport-dev/sallyport/e2e/rig"
	"github.com/sallyport-dev/sallyport/e2e/tools"
)

// TestImage runs the proxy as Compose does: its own image, not root, no
// network, a read-only root, and docker.sock by membership in its group.
func TestImage(t *testing.T) {
	rig.NeedRoot(t) // files of another user
	b := prepare(t)
	rig.NeedImages(t)
	image := b.docker.Name + "-proxy"
	b.docker.Run("build", "-q", "-f", rig.Root(t)+"/dockerproxy/Dockerfile", "--build-arg", "GO_IMAGE="+tools.GoImage, "-t", image, rig.Root(t))
	t.Cleanup(func() { b.docker.Try("rmi", "-f", image) })
	b.write("keys.env", "KEY=mounted-only-in-the-proxy")
	b.config(`"box": {"type": "docker", "image": "IMAGE", "secretsFrom": "keys"}`)
	for _, name := range []string{"", "/mcp.json", "/keys.env"} {
		if err := os.Chown(b.dir+name, 1234, 1234); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat("/var/run/docker.sock")
	rig.Need(t, err, "docker.sock on this machine")
	group := strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Gid))
	run := func(group string) string {
		return b.docker.Container("--user", "1234:1234", "--group-add", group, "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
			"--read-only", "--network", "none", "--pids-limit", "64", "--memory", "256m",
			"-v", "/var/run/docker.sock:/var/run/docker.sock", "-v", b.dir+":/config:ro", "-v", b.dir+":/run/secrets:ro", "-v", b.dir+":/run/proxy",
			"-e", "FORBIDDEN_SOURCES=none", "-e", "INSTANCE="+b.instance, "-e", "HUB_UID="+strconv.Itoa(os.Getuid()), "-e", "LISTEN_SOCKET=/run/proxy/proxy.sock", image)
	}
	id := run("54321")
	b.docker.Run("wait", id)
	if log, _ := exec.Command("docker", "logs", id).CombinedOutput(); !strings.Contains(string(log), "group_add") {
		t.Errorf("without the group: %s", log)
	}
	id = run(group)
	rig.Until(t, "the proxy listens", func() bool {
		c, err := net.Dial("unix", b.socket)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if got := b.run("box", nil).sh("echo $KEY"); got != "mounted-only-in-the-proxy" {
		t.Errorf("%q", got)
	}
	b.docker.Run("exec", id, "/sallyport-dockerproxy", "health")
	b.docker.Run("stop", id)
	b.none()
}
