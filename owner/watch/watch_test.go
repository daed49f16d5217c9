package watch_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/owner/watch"
)

func TestMain(m *testing.M) {
	if os.Getenv("WATCH_TEST_MAIN") != "" {
		os.Exit(watch.Main(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// installation is a folder with a served socket, as the working directory.
func installation(t *testing.T) *desk.Desk {
	t.Helper()
	t.Chdir(t.TempDir())
	os.MkdirAll(".sallyport/run/sandboxd", 0o700)
	os.MkdirAll(".sallyport/owner", 0o700)
	if err := os.WriteFile(".sallyport/owner/key", []byte(strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := ownersock.Listen(".sallyport/run/sandboxd/owner.sock", ".sallyport/owner/key", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	s.Desk, s.Process = desk.New(nil, nil), "sandboxd"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s.Desk
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func ask(t *testing.T, d *desk.Desk, command string) <-chan error {
	done := make(chan error, 1)
	arguments, _ := json.Marshal(map[string]string{"command": command})
	go func() {
		ticket, err := d.Admit(t.Context(), desk.Call{Ask: true, Call: audit.Call{Principal: "token:poke", Tool: "run_command", Arguments: arguments}})
		if err == nil {
			ticket.End("ok", 0)
		}
		done <- err
	}()
	eventually(t, "the call waits", func() bool { return len(d.Waiting()) > 0 })
	return done
}

// The owner's program gets each event on its standard input: what waited
// before, and what comes. Arguments of calls are not in it.
func TestNotify(t *testing.T) {
	d := installation(t)
	ask(t, d, "secret one")
	program := filepath.Join(t.TempDir(), "notify")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho \"$# $(cat)\" >> \"$0.log\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SALLYPORT_NOTIFY", program)
	ctx, cancel := context.WithCancel(t.Context())
	code := make(chan int)
	go func() { code <- watch.Main(ctx, []string{"-notify"}, io.Discard, io.Discard) }()
	read := func() string { raw, _ := os.ReadFile(program + ".log"); return string(raw) }
	eventually(t, "what waits is told", func() bool { return strings.Contains(read(), `"waiting"`) })
	d.Pause("", "lunch")
	eventually(t, "the pause is told", func() bool { return strings.Contains(read(), `"paused"`) })
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d", c)
	}
	log := read()
	var e struct{ Kind, Process, Tool, ID string }
	first, _, _ := strings.Cut(log, "\n")
	if err := json.Unmarshal([]byte(strings.TrimPrefix(first, "0 ")), &e); err != nil || e.Process != "sandboxd" || e.Tool != "run_command" || e.ID == "" {
		t.Errorf("%v %s", err, log)
	}
	if strings.Contains(log, "secret") || strings.Count(log, `"waiting"`) != 1 {
		t.Errorf("%s", log)
	}
	t.Setenv("SALLYPORT_NOTIFY", "/none")
	if c := watch.Main(t.Context(), []string{"-notify"}, io.Discard, io.Discard); c != 2 {
		t.Errorf("a program that is not there: exit code %d", c)
	}
}

// The example for ntfy sends the tool's name and nothing else, and only what
// waits.
func TestNtfyExample(t *testing.T) {
	script, err := filepath.Abs("../../deploy/notify-ntfy.sh")
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	os.WriteFile(filepath.Join(bin, "curl"), []byte("#!/bin/sh\necho \"$*\"; cat\n"), 0o755)
	for event, want := range map[string]string{
		`{"kind":"waiting","id":"abc","principal":"token:poke","tool":"run_command"}`:  "run_command waits for you",
		`{"kind":"waiting","id":"abc","principal":"token:poke","tool":"x\u0020$(id)"}`: "A call waits for you",
		`{"kind":"decided","id":"abc","tool":"run_command"}`:                           "",
	} {
		cmd := exec.Command(script)
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "TOPIC=https://ntfy.example/x"}
		cmd.Stdin = strings.NewReader(event)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), want) || want == "" && len(out) > 0 || strings.Contains(string(out), "abc") || strings.Contains(string(out), "poke") {
			t.Errorf("%s: %v %q", event, err, out)
		}
	}
}

// The page on a real terminal of 80 by 24: a call is opened, read and approved
// by keys, and the terminal is as it was afterwards.
func TestPageOnATerminal(t *testing.T) {
	d := installation(t)
	call := ask(t, d, "echo hello from the assistant")
	master, slave := pty(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "WATCH_TEST_MAIN=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	before, _ := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	screen := &screen{}
	go io.Copy(screen, master)
	eventually(t, "the call is on the page", func() bool { return strings.Contains(screen.String(), "WAITS") })
	io.WriteString(master, "\r")
	eventually(t, "it is shown whole", func() bool { return strings.Contains(screen.String(), "| command: echo hello from the assistant") })
	io.WriteString(master, "a")
	if err := <-call; err != nil {
		t.Fatal(err)
	}
	io.WriteString(master, "q")
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, screen)
	}
	eventually(t, "the screen is given back", func() bool { return strings.Contains(screen.String(), "\x1b[?1049l") })
	after, _ := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if before != nil && after != nil && before.Lflag&unix.ICANON != 0 && after.Lflag&unix.ICANON == 0 {
		t.Error("the terminal is left raw")
	}
}

// screen keeps what was written.
type screen struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("not on this machine: no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	if err != nil {
		t.Skipf("not on this machine: no pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	_ = unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	return master, slave
}
