package approval_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/config"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/owner/approve"
	"github.com/sallyport-dev/sallyport/owner/watch"
)

// raceExpiry is how long a question waits in these tests.
const raceExpiry = 250 * time.Millisecond

// TestMain runs this binary as the server that is killed, and as the page.
func TestMain(m *testing.M) {
	switch os.Getenv("APPROVAL_TEST_ROLE") {
	case "server":
		approval.SetDefaultExpiry(raceExpiry)
		fmt.Fprintln(os.Stderr, answerCalls())
		os.Exit(1)
	case "page":
		os.Exit(watch.Main(context.Background(), nil, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// answerCalls makes the calls that come on standard input, each twice, as a client
// does that repeats itself. One that may run adds its number to the file "ran".
func answerCalls() error {
	office, err := ownersock.Open(config.Owner{AuditFile: "audit/audit.jsonl", OwnerSocket: os.Getenv("MCP_OWNER_SOCKET"),
		OwnerKeyFile: "key"}, ownersock.Process{Name: "sandboxd", Stdout: os.Stderr, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	if err := office.Start(); err != nil {
		return err
	}
	ran, err := os.OpenFile("ran", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		n := in.Text()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				t, err := office.Desk.Admit(context.Background(), desk.Call{Ask: true, Call: audit.Call{
					Principal: n, Tool: "run_command", Arguments: []byte(`{"command":"` + n + `"}`)}})
				if err == nil {
					fmt.Fprintln(ran, n)
					t.End("ok", 0)
				}
			})
		}
		both.Wait()
		fmt.Println(n)
	}
	return io.EOF
}

// race is an owner with two command lines and a page, and the server.
type race struct {
	t      *testing.T
	server *exec.Cmd
	calls  io.WriteCloser
	done   *bufio.Scanner
	owner  *ownersock.Client
	exits  map[string][]string // the id of a question to the command lines that exited with 0
}

// Two command lines, the page and the expiry race for each call, which its client makes
// twice at once, and the server is killed in between: at most one decision counts, what
// a command line says is on the record, and a call runs at most as often as it was
// approved there.
func TestOneOutcomeThroughKills(t *testing.T) {
	rounds := 50
	if os.Getenv("SALLYPORT_SOAK") != "" {
		rounds = 1000
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("key", []byte(strings.Repeat("0a", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, _ := os.Getwd()
	t.Setenv("MCP_OWNER_SOCKET", filepath.Join(dir, "s"))
	t.Setenv("MCP_OWNER_KEY_FILE", filepath.Join(dir, "key"))
	t.Setenv("MCP_AUDIT_FILE", filepath.Join(dir, "audit", "audit.jsonl"))
	r := &race{t: t, exits: map[string][]string{}}
	kills := 0
	r.start()
	r.page()
	for n := range rounds {
		kill := n%5 == 4
		r.round(fmt.Sprint("call-", n), kill)
		if kill {
			kills++
			r.start()
		}
	}
	r.server.Process.Kill()
	_ = r.server.Wait()
	r.check(rounds, kills)
}

func role(name string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "APPROVAL_TEST_ROLE="+name)
	return cmd
}

func (r *race) start() {
	r.t.Helper()
	r.server = role("server")
	r.server.Stderr = os.Stderr
	in, err := r.server.StdinPipe()
	out, err2 := r.server.StdoutPipe()
	if err != nil || err2 != nil || r.server.Start() != nil {
		r.t.Fatal("the server does not start", err, err2)
	}
	r.t.Cleanup(func() { r.server.Process.Kill() })
	r.calls, r.done = in, bufio.NewScanner(out)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if r.owner, err = ownersock.Dial(r.t.Context(), os.Getenv("MCP_OWNER_SOCKET"), "key"); err == nil {
			return
		}
		if time.Now().After(deadline) {
			r.t.Fatal(err)
		}
	}
}

// page is an owner who opens and approves whatever is on the page, again and again.
func (r *race) page() {
	r.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		r.t.Logf("not on this machine, so without the page: %v", err)
		return
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	_ = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	slave, err2 := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil || err2 != nil {
		r.t.Fatal(err, err2)
	}
	cmd := role("page")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, master) }()
	over := make(chan struct{})
	go func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
				_, _ = io.WriteString(master, "\ra")
			}
		}
	}()
	r.t.Cleanup(func() { close(over); cmd.Process.Kill(); _ = cmd.Wait(); slave.Close(); master.Close() })
}

// round makes one call and lets all decide on it.
func (r *race) round(call string, kill bool) {
	r.t.Helper()
	fmt.Fprintln(r.calls, call)
	ended := make(chan struct{})
	go func() { r.done.Scan(); close(ended) }()
	id := r.question(call, ended)
	var all sync.WaitGroup
	var mu sync.Mutex
	for i, decide := range []func(context.Context, []string, io.Writer, io.Writer) int{approve.Approve, approve.Deny} {
		if i == 1 && rand.IntN(2) == 0 {
			decide = approve.Approve
		}
		all.Go(func() {
			var said strings.Builder
			time.Sleep(rand.N(raceExpiry * 5 / 4))
			if id != "" && decide(r.t.Context(), []string{id}, &said, io.Discard) == 0 {
				mu.Lock()
				defer mu.Unlock()
				r.exits[id] = append(r.exits[id], said.String())
			}
		})
	}
	if kill {
		time.Sleep(rand.N(raceExpiry))
		r.server.Process.Kill()
	}
	all.Wait()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		r.t.Fatal("the call does not end")
	}
	if kill {
		_ = r.server.Wait()
		r.owner.Close()
	}
}

// question waits until the call is on the list, and returns its id, or "" where it has
// ended before that was seen.
func (r *race) question(call string, ended <-chan struct{}) string {
	r.t.Helper()
	for {
		var list []approval.Waiting
		if err := r.owner.Do(ownersock.Request{Op: ownersock.OpPending}, &list); err != nil {
			r.t.Fatal(err)
		}
		for _, w := range list {
			if w.Principal == call {
				return w.ID
			}
		}
		select {
		case <-ended:
			return ""
		case <-time.After(time.Millisecond):
		}
	}
}

func (r *race) check(rounds, kills int) {
	r.t.Helper()
	file := os.Getenv("MCP_AUDIT_FILE")
	if found, err := audit.Verify(file, audit.VerifyOptions{}); err != nil || found.Finding != nil {
		r.t.Fatal(found.Finding, err)
	}
	decided, may, begun, approved, denied := map[string]string{}, map[string]int{}, 0, 0, 0
	_ = audit.Lines(file, func(l audit.Line) bool {
		rec, _ := l.Record()
		if id := rec.Details["id"]; rec.Event == "decision" {
			if decided[id] != "" {
				r.t.Errorf("%s was decided on twice", id)
			}
			decided[id] = rec.Details["outcome"]
			if decided[id] == "approved" {
				may[rec.Principal]++
				approved++
			} else {
				denied++
			}
		} else if rec.Kind == audit.KindBegin {
			begun++
		}
		return true
	})
	lines := 0
	for id, said := range r.exits {
		if lines++; len(said) > 1 || !strings.HasPrefix(said[0], decided[id]+" ") {
			r.t.Errorf("%s was %q on the record, and the command lines said %q", id, decided[id], said)
		}
	}
	raw, _ := os.ReadFile("ran")
	ran := strings.Fields(string(raw))
	for _, call := range ran {
		if may[call]--; may[call] < 0 {
			r.t.Errorf("%s ran more often than it was approved", call)
		}
	}
	r.t.Logf("%d calls, each twice, %d kills: approved %d, denied %d (%d by command lines, the others on the page), begun %d, ran %d",
		rounds, kills, approved, denied, lines, begun, len(ran))
	if len(ran) > begun || begun > approved || len(ran) == 0 || denied == 0 {
		r.t.Error("more ran than began, more began than were approved, or nothing was tested")
	}
}
