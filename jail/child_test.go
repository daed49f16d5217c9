package jail_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/jail"
)

const actVariable = "JAIL_TEST_ACT"

// actAsChild makes the test binary play another part: a process that is
// attacked, or the attacker.
func actAsChild() {
	act := os.Getenv(actVariable)
	if act == "" {
		return
	}
	switch act {
	case "victim":
		time.Sleep(time.Hour)
		os.Exit(1)
	case "hydra":
		hydra()
	case "bomb":
		bomb()
	}
	var to target
	if err := json.Unmarshal([]byte(os.Getenv("JAIL_TEST_TARGET")), &to); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, name := range strings.Split(act, ",") {
		if err := attacks[name](to); err != nil {
			fmt.Printf("%s: %v\n", name, err)
		} else {
			fmt.Printf("%s: through\n", name)
		}
	}
	// Not os.Exit: the race detector would wait a second there for other threads.
	unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
}

// program copies the test binary to where a command may execute it.
func program(t testing.TB, dir string) string {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	path := filepath.Join(dir, "program")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(f, self); err != nil {
		t.Fatal(err)
	}
	f.Close()
	return path
}

// victim starts a process that holds the secret, in no real jail.
func victim(t *testing.T, program string) target {
	t.Helper()
	j, _ := newJail(t, jail.Group)
	p, err := j.Start(t.Context(), jail.Command{Args: []string{program}, Env: []string{actVariable + "=victim", "MCP_AUTH_TOKEN=" + secret}})
	if err != nil {
		t.Fatal(err)
	}
	return target{Victim: p.PID(), Thread: otherThread(t, p.PID())}
}

// otherThread is a thread of a process that is not its first.
func otherThread(t *testing.T, pid int) (tid int) {
	t.Helper()
	waitFor(t, func() bool {
		tasks, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		for _, task := range tasks {
			if id := atoi(task.Name()); id != pid {
				tid = id
			}
		}
		return tid != 0
	})
	return tid
}

// try runs one attack, or all, in a jail.
func try(t *testing.T, j *jail.Jail, program string, to target, name string, more ...string) string {
	t.Helper()
	aim, _ := json.Marshal(to)
	if name == "all" {
		var names []string
		for n := range attacks {
			names = append(names, n)
		}
		slices.Sort(names)
		name = strings.Join(names, ",")
	}
	env := append([]string{actVariable + "=" + name, "JAIL_TEST_TARGET=" + string(aim)}, more...)
	res, out, stderr := run(t, j, jail.Command{Args: []string{program}, Env: env, Timeout: long})
	if res.TimedOut || stderr != "" {
		t.Fatalf("%s: %+v %s", name, res, stderr)
	}
	return out
}
