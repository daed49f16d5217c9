// Package stub is what a re-executed sandboxd does before anything else: it
// makes the system calls that it is told, which restrict it, and becomes
// the command.
//
// It does so while packages are initialised, and imports next to nothing: Go
// initialises a package as soon as those that it imports are ready, so this one
// comes before a hundred others of the same program. They would cost a command
// more time than everything else here together.
package stub

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// Name is what the re-executed program is called. Whoever else calls it so
// gets a process that restricts itself and becomes the program it names.
const Name = "sallyport-jail-stub"

// OneThread, as the last of a stub's environment, keeps its Go runtime from
// starting threads that it does not need. No command sees it: a GOMAXPROCS of its
// own comes before and counts.
const OneThread = "GOMAXPROCS=01"

// Step is one system call of a stub, unless its name is one of those below.
type Step struct {
	Name string // what Fail says where it fails
	Call uintptr
	Args [3]uint64
}

// The names of steps that are more than a call. The arguments of Limit are a
// resource and its value, the one of OOMScore is the score. Warden has none.
const (
	Limit    = "limit"
	OOMScore = "oom_score_adj"
	Filter   = "seccomp" // the call's third argument is the filter
	then     = "then"    // not for this package: a stage of Then
)

// Then is a step that this package leaves to whoever knows its stage.
func Then(stage string) Step { return Step{Name: then + stage} }

// In a stub's arguments stand the steps, each of width arguments, end and the
// program with its own.
const (
	width = 5
	end   = "--"
)

// Argv are the arguments of a stub that takes steps and becomes the program.
func Argv(steps []Step, program []string) []string {
	argv := []string{Name}
	for _, s := range steps {
		argv = append(argv, s.Name, strconv.FormatUint(uint64(s.Call), 10))
		for _, a := range s.Args {
			argv = append(argv, strconv.FormatUint(a, 10))
		}
	}
	return append(append(argv, end), program...)
}

// The descriptors of a stub. The kernel closes them all at its exec.
const (
	StatusFD = 3 + iota // where it reports a failure
	DirFD               // working directory
	RulesFD             // Landlock ruleset
	FilterFD            // seccomp filter
	LeashFD             // what the warden watches
	Descriptors
)

// left are the arguments from a step on that is not for this package; nil where
// this process is no stub.
var left []string

// Stage is the stage of Then that this process has come to, and whether it is a
// stub at all.
func Stage() (stage string, stub bool) {
	if left == nil {
		return "", false
	}
	return left[0][len(then):], true
}

// Continue takes the steps after the stage.
func Continue() { run(left[width:]) }

func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		// A server may keep capabilities of its own user namespace; they are not for others.
		syscall.RawSyscall6(syscall.SYS_PRCTL, 47, 4, 0, 0, 0, 0) // PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
		run(os.Args[1:])
	}
}

// run takes steps, in order, and becomes the program behind them. It returns
// only when it comes to a stage of Then. What a step restricts is the calling
// thread, which must be locked.
func run(args []string) {
	for left = args; left[0] != end; left = left[width:] {
		if len(left[0]) >= len(then) && left[0][:len(then)] == then {
			return
		}
		var n [width - 1]uintptr
		for i := range n {
			v, _ := strconv.ParseUint(left[1+i], 10, 64)
			n[i] = uintptr(v)
		}
		if err := take(left[0], n[0], n[1], n[2], n[3]); err != nil {
			Fail(err)
		}
	}
	left = left[1:]
	env := os.Environ()
	if n := len(env) - 1; n >= 0 && env[n] == OneThread {
		env = env[:n]
	}
	Fail(syscall.Exec(left[0], left, env))
}

// Fail reports the failed step and the reason on StatusFD, then exits 126.
func Fail(why error) {
	syscall.Write(StatusFD, []byte(left[0]+": "+why.Error()))
	syscall.Exit(126)
}

func take(name string, nr, a, b, c uintptr) error {
	switch name {
	case Limit: // syscall.Setrlimit is the one that keeps Go from restoring the old limit at exec
		var was syscall.Rlimit // one that is lower stays
		if syscall.Getrlimit(int(a), &was) == nil {
			b = uintptr(min(uint64(b), was.Max))
		}
		return syscall.Setrlimit(int(a), &syscall.Rlimit{Cur: uint64(b), Max: uint64(b)})
	case OOMScore:
		return os.WriteFile("/proc/self/oom_score_adj", strconv.AppendUint(nil, uint64(a), 10), 0)
	case Warden:
		return leaveWarden()
	case Filter:
		var code [4096]uint64 // BPF_MAXINSNS
		size, err := syscall.Pread(FilterFD, unsafe.Slice((*byte)(unsafe.Pointer(&code)), 8*len(code)), 0)
		if err != nil {
			return err
		}
		program := struct { // struct sock_fprog, linux/filter.h
			length uint16
			code   *[4096]uint64
		}{uint16(size / 8), &code}
		return call(nr, a, b, uintptr(unsafe.Pointer(&program)))
	}
	return call(nr, a, b, c)
}

//go:uintptrescapes
func call(nr, a, b, c uintptr) error {
	if _, _, errno := syscall.RawSyscall6(nr, a, b, c, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
