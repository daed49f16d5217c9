package proxy

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/dockerproxy/wire"
	"github.com/sallyport-dev/sallyport/e2e/rig"
)

// TestDaemonCrash: the hub is told, nothing hangs, and all works again once
// the daemon is back, without help.
func TestDaemonCrash(t *testing.T) {
	rig.NeedRoot(t)
	b := prepare(t)
	e := rig.StartEngine(t)
	save := exec.Command("sh", "-c", `docker save "$0" | docker --host "unix://$1" load`, b.image, e.Socket())
	if out, err := save.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b.config(`"box": {"type": "docker", "image": "IMAGE"}`)
	b.start("DOCKER_SOCKET=" + e.Socket())
	l := b.run("box", nil)
	if got := l.sh("echo before"); got != "before" {
		t.Fatalf("%q", got)
	}
	e.Kill()
	if end := l.end(); end.Reason != wire.EndLost {
		t.Errorf("the daemon is gone: %+v", end)
	}
	if _, reply := b.greet(); reply.OK || !strings.Contains(reply.Error, "does not answer") {
		t.Errorf("a handshake without a daemon: %+v", reply)
	}
	e.Start()
	if got := b.run("box", nil).sh("echo after"); got != "after" {
		t.Errorf("%q", got)
	}
}
