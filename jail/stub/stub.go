// Package stub is what a re-executed sandboxd does before anything else: it
// makes the system calls that it is told, which put it behind the walls, and
// becomes the command.
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

// In a stub's arguments stand the steps, End and the program. A step is a name,
// the number of a system call and three arguments, but for these names.
const (
	Width  = 5 // arguments that make one step
	End    = "--"
	Limit  = "limit"   // a resource limit and its value
	Victim = "victim"  // of the kernel, before others, where memory is short
	Filter = "seccomp" // the call's third argument is the filter
	Then   = "then"    // not for this package
)

// The descriptors of a stub. The kernel closes them all at its exec.
const (
	StatusFD = 3 + iota // where it says what went wrong
	DirFD               // working directory
	RulesFD             // Landlock ruleset
	FilterFD            // seccomp filter
	Descriptors
)

// Left are the arguments from a step on that is not for this package; nil where
// this process is no stub.
var Left []string

func init() {
	if len(os.Args) > 0 && os.Args[0] == Name {
		Go(os.Args[1:])
	}
}

// Go takes steps, in order, and becomes the program behind them. It returns
// only when it comes to Then, with Left set. What a step restricts is the
// calling thread, which must be locked.
func Go(args []string) {
	for Left = args; Left[0] != End; Left = Left[Width:] {
		if Left[0] == Then {
			return
		}
		var n [Width - 1]uintptr
		for i := range n {
			v, _ := strconv.ParseUint(Left[1+i], 10, 64)
			n[i] = uintptr(v)
		}
		if err := take(Left[0], n[0], n[1], n[2], n[3]); err != nil {
			Fail(err)
		}
	}
	Left = Left[1:]
	env := os.Environ()
	if n := len(env) - 1; n >= 0 && env[n] == OneThread {
		env = env[:n]
	}
	Fail(syscall.Exec(Left[0], Left, env))
}

// Fail tells the server at what there came to be no command, and why.
func Fail(why error) {
	syscall.Write(StatusFD, []byte(Left[0]+": "+why.Error()))
	syscall.Exit(126)
}

func take(name string, nr, a, b, c uintptr) error {
	switch name {
	case Limit: // syscall.Setrlimit is the one that keeps Go from restoring the old limit at exec
		return syscall.Setrlimit(int(nr), &syscall.Rlimit{Cur: uint64(a), Max: uint64(a)})
	case Victim:
		return os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
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
