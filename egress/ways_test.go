package main_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// optional are the ways that a kernel, or Docker's own profile, need not have: their
// twin may fail. Of every other the twin must get out.
var optional = []string{"bluetooth", "io_uring", "mptcp", "packet", "ping", "raw", "sctp", "vsock"}

// ways are the names in testdata/ways.pl but for the relay, which needs a proxy.
func ways(t *testing.T) (names []string) {
	t.Helper()
	out, err := exec.Command("perl", "testdata/ways.pl", "all").Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(out)), func(way string) bool { return way == "relay" })
}

// bringWays copies the script to where commands read it.
func bringWays(t *testing.T, workspace string) {
	t.Helper()
	script, err := os.ReadFile("testdata/ways.pl")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(workspace, "ways.pl"), script, 0o644); err != nil {
		t.Fatal(err)
	}
}

// target is a host with everything that the ways reach for.
const target, target6 = "93.184.215.11", "2606:2800:220::10"

// listenForWays opens what the world's hosts lack.
func listenForWays(t *testing.T) (heard func() int) {
	t.Helper()
	tcp, err := net.Listen("tcp", target+":3128")
	if err != nil {
		t.Fatal(err)
	}
	abstract, err := net.Listen("unix", "@sallyport-way")
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{}, 1000)
	for _, l := range []net.Listener{tcp, abstract} {
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				came <- struct{}{}
				c.Close()
			}
		}()
	}
	for _, address := range []string{target + ":5353", "[" + target6 + "]:5353"} {
		udp, err := net.ListenPacket("udp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { udp.Close() })
		go func() {
			for {
				if _, _, err := udp.ReadFrom(make([]byte, 10)); err != nil {
					return
				}
				came <- struct{}{}
			}
		}()
	}
	return func() (n int) {
		for ; ; n++ {
			select {
			case <-came:
			default:
				return n
			}
		}
	}
}

// No way of the kernel's leads out of a command's network: not TCP in any of its
// forms, nor other sockets, nor io_uring. The twins are the same program outside.
func TestKernelsWaysOut(t *testing.T) {
	world.dns.Set("data.evil.example", target)
	world.dns.Set("a.example", target)
	heard := listenForWays(t)
	for _, way := range ways(t) {
		out, err := exec.Command("perl", "testdata/ways.pl", way, target, target6).CombinedOutput()
		if err != nil && !slices.Contains(optional, way) {
			t.Errorf("the twin %s: %v %s", way, err, out)
		} else if err != nil {
			t.Logf("the kernel has no %s: %s", way, out)
		}
	}
	awaitThat(t, "the twins' connections", func() bool { return heard() > 0 || len(world.hosts[target+":443"].Received(false)) > 0 })
	if !rootHere(t) {
		return
	}
	for name, uid := range accounts {
		t.Run(name, func(t *testing.T) {
			s := startSandbox(t, uid, "a.example")
			bringWays(t, s.workspace)
			c := s.connect(as("one", "a.example"))
			world.dns.Queries()
			forget()
			heard()
			for _, way := range ways(t) {
				if r := s.run(c, fmt.Sprintf("perl ways.pl %s %s %s", way, target, target6)); r.ExitCode == 0 || strings.Contains(r.Stdout, "OUT") {
					t.Errorf("%s: %+v", way, r)
				}
			}
			if n := heard(); n != 0 {
				t.Errorf("%d connections or packets came", n)
			}
			for address, l := range world.hosts {
				if got := l.Received(true); len(got) != 0 {
					t.Errorf("%s received %q", address, got)
				}
			}
			if q := world.dns.Queries(); len(q) != 0 {
				t.Errorf("DNS queries: %q", q)
			}
			relayed(t, func(host string) result { return s.run(c, "perl ways.pl relay "+host) })
			s.othersListener(t)
		})
	}
}

// relayed tries a proxy of the command's own in front of its proxy.
func relayed(t *testing.T, relay func(host string) result) {
	t.Helper()
	if r := relay("a.example"); r.Stdout != "OUT\n" {
		t.Errorf("the twin, an allowed host through a relay: %+v", r)
	}
	if r := relay("data.evil.example"); r.ExitCode == 0 || !strings.Contains(r.Stderr, "403 egress") {
		t.Errorf("through a relay: %+v", r)
	}
}

// othersListener asks for a server that another command of the same principal runs.
// The twin asks for its own.
func (s *sandbox) othersListener(t *testing.T) {
	t.Helper()
	c := s.connect(as("one", "a.example"))
	const serve = `perl -MIO::Socket::INET -e '$l = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:4444", ReuseAddr => 1) or die; open(F, ">ready"); close(F); ` +
		`while ($c = $l->accept) { print $c "other\n"; close $c }'`
	const ask = `perl -MIO::Socket::INET -e 'print IO::Socket::INET->new("127.0.0.1:4444")->getline'`
	if r := s.run(c, serve+" & until [ -e ready ]; do sleep .05; done; "+ask+"; kill $!; rm ready"); r.Stdout != "other\n" {
		t.Errorf("the twin, in one command: %+v", r)
	}
	ended := make(chan result)
	go func() {
		ended <- s.run(s.connect(as("one", "a.example")), "("+serve+") & until [ -e stop ]; do sleep .05; done; kill $!")
	}()
	awaitThat(t, "the other command's server", func() bool {
		_, err := os.Stat(filepath.Join(s.workspace, "ready"))
		return err == nil
	})
	for _, who := range []string{"one", "two"} {
		if r := s.run(s.connect(as(who, "a.example")), ask); r.ExitCode == 0 || r.Stdout != "" {
			t.Errorf("%s reached another command's listener: %+v", who, r)
		}
	}
	os.WriteFile(filepath.Join(s.workspace, "stop"), nil, 0o644)
	<-ended
	os.Remove(filepath.Join(s.workspace, "ready"))
}

// The same ways out of a locked container that has a network: its commands do not. The
// twins are the same program in the same container, beside the jail.
func TestKernelsWaysOutOfContainer(t *testing.T) {
	if !rootHere(t) {
		return
	}
	if out, err := exec.Command("docker", "image", "inspect", "--format", "{{.Id}}", image).CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("Docker with %s: %s", image, out))
		return
	}
	world.dns.Set("a.example", target)
	dir, e := containerEgress(t, "a.example")
	bringWays(t, filepath.Join(dir, "workspace"))
	peer := bridgePeer(t)
	b, said := lockedBox(t, e, filepath.Join(dir, "workspace"), "--network", "bridge", "--security-opt", "seccomp="+seccompProfile(t))
	if b.id == "" {
		t.Fatal(said)
	}
	got := map[string]bool{}
	for _, way := range ways(t) {
		if strings.HasPrefix(way, "dns") || way == "abstract" {
			continue // of the world outside; TestLockedContainer has them
		}
		out, err := exec.Command("docker", "exec", b.id, "perl", "/workspace/ways.pl", way, peer, target6).CombinedOutput()
		if got[way] = err == nil; err != nil {
			t.Logf("the container itself has no %s: %s", way, out)
		}
		if r := b.run(fmt.Sprintf("perl ways.pl %s %s %s", way, peer, target6)); r.ExitCode == 0 || strings.Contains(r.Stdout, "OUT") {
			t.Errorf("%s: %+v", way, r)
		}
	}
	for _, way := range []string{"tcp", "proxyport", "fastopen_sendto", "fastopen_sendmsg", "fastopen_sendmmsg", "fastopen_option", "udp"} {
		if !got[way] {
			t.Errorf("the twin %s got nowhere", way)
		}
	}
	relayed(t, func(host string) result { return b.run("perl ways.pl relay " + host) })
}

// bridgePeer is another container on Docker's bridge, and returns its address.
func bridgePeer(t *testing.T) string {
	t.Helper()
	const serve = `@l = map { IO::Socket::INET->new(Listen => 9, LocalAddr => "0.0.0.0:$_") or die } 443, 3128; $s = IO::Select->new(@l); $| = 1; print "up\n"; while (1) { $_->accept for $s->can_read }`
	out, err := exec.Command("docker", "run", "--detach", "--network", "bridge", image, "perl", "-MIO::Socket::INET", "-MIO::Select", "-e", serve).Output()
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSpace(string(out))
	t.Cleanup(func() { exec.Command("docker", "rm", "--force", id).Run() })
	awaitThat(t, "the peer", func() bool {
		log, _ := exec.Command("docker", "logs", id).CombinedOutput()
		return strings.Contains(string(log), "up")
	})
	address, err := exec.Command("docker", "inspect", "--format", "{{.NetworkSettings.IPAddress}}", id).Output()
	if err != nil || len(address) < 8 {
		t.Fatal(err, string(address))
	}
	return strings.TrimSpace(string(address))
}
