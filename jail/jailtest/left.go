package jailtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sallyport-dev/sallyport/jail"
)

// Leavers is a shell's line that starts, in the background, what outlives a shell in
// every way that a command has. NAP stands for a number of Number's.
const Leavers = `sleep NAP & setsid sleep NAP & (setsid sh -c 'sleep NAP & exit' &)
setsid sh -c 'kill -STOP $$; sleep NAP' NAP &
setsid sh -c 'trap "" TERM HUP INT QUIT; while :; do sleep NAP; done' NAP &
setsid sh -c 'unshare -Urp --fork sleep NAP || sleep NAP' NAP & (nohup setsid sleep NAP <&- >&- 2>&- &)
`

// Started says whether all that Leavers starts is asleep.
func Started(number string) bool {
	asleep := 0
	for _, pid := range Running(number) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if bytes.HasPrefix(line, []byte("sleep\x00")) {
			asleep++
		}
	}
	return asleep >= 6
}

var number atomic.Int64

// Number is a number of seconds that nobody else sleeps for.
func Number() string {
	return fmt.Sprintf("9%d.%d%d", os.Getpid(), number.Add(1), time.Now().UnixNano()%1_000_000)
}

// Running are the processes that have a number of Number's in their arguments.
func Running(number string) (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && bytes.Contains(line, []byte(number)) {
			pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// Ends are the ways in which a command ends.
var Ends = []string{"by itself", "by its time", "stopped", "killed", "its caller has gone"}

// Left runs Leavers, ends it in one of the ways of Ends, and returns what of it is
// alive as soon as it is said to have ended.
func Left(j *jail.Jail, end string) (pids []int, err error) {
	number := Number()
	in, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	defer w.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c := jail.Command{Args: []string{"/bin/sh", "-c", strings.ReplaceAll(Leavers+"read x", "NAP", number)}, Stdin: in,
		Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}}
	if end == Ends[1] {
		c.Timeout = 2 * time.Second
	}
	p, err := j.Start(ctx, c)
	if err != nil {
		return nil, err
	}
	// What ends by its time ends whatever has started by then.
	for limit := time.Now().Add(time.Minute); c.Timeout == 0 && !Started(number); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			p.Kill()
			return nil, errors.New("the command's processes did not start within a minute")
		}
	}
	switch end {
	case Ends[0]:
		fmt.Fprintln(w)
	case Ends[2]:
		p.Stop()
	case Ends[3]:
		p.Kill()
	case Ends[4]:
		cancel()
	}
	p.Wait()
	return Running(number), nil
}
