package process_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sallyport-dev/sallyport/internal/process"
)

// A program that cleans up for as long as its standard input is open.
func TestMain(m *testing.M) {
	if os.Getenv("SALLYPORT_TEST_SIGNALS") == "" {
		os.Exit(m.Run())
	}
	ctx := process.Context()
	os.Stdout.WriteString("ready\n")
	<-ctx.Done()
	os.Stdout.WriteString("ending\n")
	io.Copy(io.Discard, os.Stdin)
	os.Stdout.WriteString("cleaned\n")
}

// pkill sends a signal to a server and to its parent in another namespace, which passes
// it on: both are one wish. A person's second one, later, ends the process at once.
func TestSecondSignal(t *testing.T) {
	for name, want := range map[string]string{"at once": "cleaned\n", "later": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), "SALLYPORT_TEST_SIGNALS=1")
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(out)
			says := func(line string) {
				if got, err := lines.ReadString('\n'); got != line || err != nil {
					t.Fatalf("%q %v, want %q", got, err, line)
				}
			}
			says("ready\n")
			cmd.Process.Signal(syscall.SIGTERM)
			if want != "" {
				cmd.Process.Signal(os.Interrupt) // another one, since two of a kind may become one
				for deadline := time.Now().Add(time.Minute); pending(cmd.Process.Pid); {
					if time.Now().After(deadline) {
						t.Fatal("the second signal was not taken")
					}
				}
				in.Close()
			}
			says("ending\n")
			over := make(chan struct{})
			if want == "" { // until one ends it: how late the second begins to count is the machine's
				go func() {
					for tick := time.Tick(100 * time.Millisecond); ; <-tick {
						select {
						case <-over:
							return
						default:
							cmd.Process.Signal(syscall.SIGTERM)
						}
					}
				}()
			}
			rest, _ := io.ReadAll(lines)
			close(over)
			err = cmd.Wait()
			if string(rest) != want || (err == nil) != (want != "") {
				t.Errorf("%q, %v; want %q", rest, err, want)
			}
		})
	}
}

// pending is whether a signal to the process waits to be taken.
func pending(pid int) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return err == nil && !strings.Contains(string(status), "ShdPnd:\t0000000000000000")
}
