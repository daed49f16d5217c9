package jail_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sallyport-dev/sallyport/jail"
)

// battlefield is everything that an attacker may aim at.
func battlefield(t *testing.T) (prog string, to target) {
	t.Helper()
	dir := t.TempDir()
	prog = program(t, dir)
	to = victim(t, prog)
	to.Outside = t.TempDir()
	if err := os.WriteFile(filepath.Join(to.Outside, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	to.Abstract = "@" + filepath.Base(to.Outside) + t.Name()
	for _, name := range []string{"docker.sock", "bus", "tmux", "agent"} {
		to.Sockets = append(to.Sockets, filepath.Join(to.Outside, name))
	}
	for _, path := range append(to.Sockets, to.Abstract) {
		listen(t, "unix", path)
	}
	to.Journal = filepath.Join(to.Outside, "journal")
	journal, err := net.ListenPacket("unixgram", to.Journal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { journal.Close() })
	to.Port = listen(t, "tcp", "127.0.0.1:0").Addr().(*net.TCPAddr).Port
	return prog, to
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// Each attack gets through where only the account holds a command: it is the
// jail that holds the others.
func TestAttacksWithoutWalls(t *testing.T) {
	prog, to := battlefield(t)
	j, _ := newJail(t, jail.Group)
	for name := range attacks {
		var env []string
		if name == "own environment" {
			env = []string{"MCP_AUTH_TOKEN=" + secret} // as it would be if it were inherited
		}
		want := "through"
		if contained && slices.Contains(heldByEngine, name) {
			want = "operation not permitted"
		}
		out := try(t, j, prog, to, name, env...)
		if out == name+": "+want+"\n" {
			continue
		}
		if why := refusedHere(t, name, out); why != "" && !contained {
			t.Logf("%s: the kernel itself refuses (%s); the evaluated filter is the proof", name, why)
			continue
		}
		t.Errorf("%q", out)
	}
}

// heldByEngine are the attacks that Docker's default seccomp profile refuses by
// itself, in its version 20.10 and later.
var heldByEngine = []string{"pidfd_getfd", "mount", "process_vm_readv", "user namespace", "keyring", "perf events"}

// All attacks in one process, so that nothing gained by one opens the next, in
// each kind of jail. A container and its network open what they name.
func TestAttacks(t *testing.T) {
	network := []string{"tcp connect", "mptcp connect", "tcp fast open", "tcp bind", "mptcp bind", "listen unbound", "udp", "netlink"}
	container := []string{"docker socket", "session bus", "tmux socket", "ssh-agent", "journal", "/dev/shm"}
	for _, cfg := range configs(t) {
		t.Run(fmt.Sprintf("network %s container %v", cfg.Network, cfg.InContainer), func(t *testing.T) {
			prog, to := battlefield(t)
			opened := []string{"descriptors"} // the control of them is the next test's
			if cfg.Network == jail.Container {
				opened = append(opened, network...)
			}
			if cfg.InContainer {
				opened = append(opened, container...)
				if strings.HasPrefix(to.Outside, "/tmp/") {
					opened = append(opened, "read outside", "write outside", "create outside")
				}
			}
			cfg.Writable = []string{filepath.Dir(prog)}
			j, err := jail.New(cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer j.Close()
			lines := strings.Split(strings.TrimSpace(try(t, j, prog, to, "all")), "\n")
			if len(lines) != len(attacks) {
				t.Errorf("%d lines for %d attacks", len(lines), len(attacks))
			}
			for _, line := range lines {
				name, verdict, _ := strings.Cut(line, ": ")
				through, open := verdict == "through", slices.Contains(opened, name)
				if open && !through {
					if why := refusedHere(t, name, line); why != "" {
						t.Logf("%s: open, but the kernel itself refuses (%s)", name, why)
						continue
					}
				}
				if through != open {
					t.Error(line)
				}
			}
		})
	}
}

// A process that is not dumpable is closed to its own account, even without
// any other restriction. The jail makes its server such a one.
func TestNotDumpable(t *testing.T) {
	prog, open := battlefield(t)
	j, _ := newJail(t, jail.Group)
	hidden := open
	hidden.Victim, hidden.Thread = os.Getpid(), otherThread(t, os.Getpid())
	for _, name := range []string{"environ", "thread's environ", "memory", "maps", "executable", "its root", "descriptors", "oom score", "ptrace"} {
		if out := try(t, j, prog, open, name); out != name+": through\n" {
			if why := refusedHere(t, name, out); why != "" {
				t.Logf("%s: the kernel itself refuses (%s)", name, why)
			} else {
				t.Errorf("dumpable: %q", out)
			}
		}
		if out := try(t, j, prog, hidden, name); out == "" || strings.HasSuffix(out, ": through\n") {
			t.Errorf("not dumpable: %q", out)
		}
	}
}
