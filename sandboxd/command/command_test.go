package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
	"github.com/sallyport-dev/sallyport/jail/jailtest"
	"github.com/sallyport-dev/sallyport/sandboxd/command"
	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

func TestMain(m *testing.M) { jailtest.Main(m) }

// long is how long a test waits for what must come: the machine may be busy.
const long = time.Minute

// newRunner runs commands in a workspace of its own, with the directory that
// is private to them.
func newRunner(t *testing.T, limit int) (r *command.Runner, workspace, private string) {
	t.Helper()
	base := t.TempDir()
	workspace, private = filepath.Join(base, "work"), filepath.Join(base, "private")
	for _, dir := range []string{workspace, private} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	j, err := jail.New(jail.Config{Mode: jail.Full, Network: jail.None, Writable: []string{workspace}})
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		t.Fatal(err)
	}
	homes, err := command.OpenHomes(private)
	if err != nil {
		t.Fatal(err)
	}
	r = command.NewRunner(j, jail.None, files.New(root, workspace, nil), homes, limit)
	t.Cleanup(func() {
		r.Close()
		j.Close()
		root.Close()
	})
	return r, workspace, private
}

// ended waits for a command's end.
func ended(t *testing.T, c *command.Command) (res jail.Result, stdout, stderr string) {
	t.Helper()
	select {
	case <-c.Done():
	case <-time.After(long):
		t.Fatal("the command does not end")
	}
	res, _ = c.Result()
	stdout, _ = c.Stdout.Text()
	stderr, _ = c.Stderr.Text()
	return res, stdout, stderr
}

// output is what a line writes to stdout, run to its end.
func output(t *testing.T, r *command.Runner, line, workdir string) string {
	t.Helper()
	c, err := r.Start(t.Context(), "", line, workdir, long)
	if err != nil {
		t.Fatal(err)
	}
	_, stdout, _ := ended(t, c)
	return stdout
}

func TestEnvironmentIsExplicit(t *testing.T) {
	t.Setenv("MCP_AUTH_TOKEN", "secret")
	r, workspace, private := newRunner(t, 4096)
	got := output(t, r, `env | sort; pwd; [ -d "$HOME" ] && [ -d "$GOCACHE" ] && [ -d "$GOPATH" ] && echo "directories are there"`, "")
	for _, want := range []string{"HOME=" + private + "/local/home\n", "TMPDIR=" + private + "/local/tmp\n", "USER=sandbox\n", "TERM=dumb\n", "LANG=C.UTF-8\n", "/usr/local/go/bin", "\n" + workspace + "\n", "directories are there"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if strings.Contains(got, "secret") {
		t.Errorf("the server's environment leaks:\n%s", got)
	}
}

// A command can put a link where its directories were: it is not followed.
func TestPrivateDirectoriesThatWereReplaced(t *testing.T) {
	r, workspace, private := newRunner(t, 4096)
	output(t, r, `rmdir "$HOME" && ln -s "$PWD/elsewhere" "$HOME"`, "")
	if got := output(t, r, "echo runs", ""); got != "runs\n" {
		t.Errorf("%q", got)
	}
	if _, err := os.Stat(filepath.Join(workspace, "elsewhere")); err == nil {
		t.Error("the link was followed")
	}
	if info, err := os.Lstat(filepath.Join(private, "local/home")); err != nil || !info.IsDir() {
		t.Errorf("%v, %v", info, err)
	}
}

// Line numbers in the shell's messages are the command's own.
func TestLineNumbers(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	if got := output(t, r, "exec 2>&1\nnowhere/to/be/found", ""); !strings.Contains(got, "2: ") {
		t.Errorf("%q", got)
	}
}

func TestRefusedLines(t *testing.T) {
	r, workspace, _ := newRunner(t, 4096)
	if err := os.WriteFile(filepath.Join(workspace, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ line, workdir, words string }{
		{"", "", "empty"},
		{" \n\t", "", "empty"},
		{"echo \x00", "", "NUL"},
		{strings.Repeat("x", 100<<10+1), "", "write it to a file"},
		{"true", "../", "workdir"},
		{"true", "/etc", "workdir"},
		{"true", "file", "not a directory"},
		{"true", "nowhere", "workdir"},
	} {
		if _, err := r.Start(t.Context(), "", c.line, c.workdir, long); err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%.20q in %q: %v, want %q", c.line, c.workdir, err, c.words)
		}
	}
	if got := output(t, r, "# "+strings.Repeat("x", 100<<10-10)+"\necho ok", ""); got != "ok\n" {
		t.Errorf("the longest line: %q", got)
	}
}

// Where the account may have no more processes, a model is told so,
// and the next command runs when there is room again.
func TestNoMoreProcesses(t *testing.T) {
	r, _, _ := newRunner(t, 4096)
	output(t, r, "true", "")
	warmThreads()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &was); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: 1, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	_, err := r.Start(t.Context(), "", "echo ran", "", long)
	if err := unix.Setrlimit(unix.RLIMIT_NPROC, &was); err != nil {
		t.Fatal(err)
	}
	if err == nil || !strings.Contains(err.Error(), "no more processes") || !strings.Contains(err.Error(), "try again") || strings.Contains(err.Error(), "temporarily unavailable") {
		t.Errorf("%v", err)
	}
	if got := output(t, r, "echo again", ""); got != "again\n" {
		t.Errorf("afterwards: %q", got)
	}
}

// warmThreads makes the threads that the runtime will want: a Go program that
// gets none ends.
func warmThreads() {
	var all sync.WaitGroup
	for range 24 {
		all.Go(func() { unix.Nanosleep(&unix.Timespec{Nsec: 200e6}, nil) })
	}
	all.Wait()
}

// The caller's context, the time and Close each end a command and what it
// started.
func TestEnds(t *testing.T) {
	const line = "sleep 1000 & echo $! >pid; sleep 1000"
	for name, c := range map[string]struct {
		most time.Duration
		end  func(cancel func(), r *command.Runner, c *command.Command)
		told func(jail.Result) bool
	}{
		"time":   {5 * time.Second, func(func(), *command.Runner, *command.Command) {}, func(r jail.Result) bool { return r.TimedOut }},
		"caller": {long, func(cancel func(), _ *command.Runner, _ *command.Command) { cancel() }, func(r jail.Result) bool { return r.Canceled }},
		"Kill":   {long, func(_ func(), _ *command.Runner, c *command.Command) { c.Stop(true) }, func(r jail.Result) bool { return !r.TimedOut && !r.Canceled }},
		"Close":  {long, func(_ func(), r *command.Runner, _ *command.Command) { r.Close() }, func(r jail.Result) bool { return !r.TimedOut && !r.Canceled }},
	} {
		t.Run(name, func(t *testing.T) {
			r, workspace, _ := newRunner(t, 4096)
			ctx, cancel := contextOf(t)
			cmd, err := r.Start(ctx, "", line, "", c.most)
			if err != nil {
				t.Fatal(err)
			}
			pid := readPID(t, filepath.Join(workspace, "pid"))
			c.end(cancel, r, cmd)
			want := "SIGTERM"
			if name == "Kill" {
				want = "SIGKILL"
			}
			if res, _, _ := ended(t, cmd); res.Signal != want || !c.told(res) {
				t.Errorf("%+v", res)
			}
			if err := unix.Kill(pid, 0); err != unix.ESRCH {
				t.Errorf("what it started: %v", err)
			}
		})
	}
}
