package files_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/sandboxd/files"
)

// locklessVariable makes this test binary write one file where flock(2) fails with
// that number.
const locklessVariable = "SALLYPORT_TEST_LOCKLESS"

func writeWithoutLocks(dir, number string) {
	var errno uint32
	fmt.Sscan(number, &errno)
	root, err := os.OpenRoot(dir)
	if err == nil {
		err = failFlock(errno)
	}
	if err != nil {
		panic(err)
	}
	if err := unix.Flock(int(os.Stdin.Fd()), unix.LOCK_EX); err != unix.Errno(errno) {
		panic(fmt.Sprint("flock is not refused: ", err))
	}
	w := files.New(root, dir, nil)
	for _, text := range []string{"first", "second"} { // a new file, then a replacement
		if _, err := w.Write("f", text, false); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	os.Exit(0)
}

// failFlock has the kernel refuse flock(2) to all of this process.
func failFlock(errno uint32) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	code := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the call's number
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: unix.SYS_FLOCK},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, e := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return e
	}
	return nil
}

// On a file system without locks files are written all the same. Another error of
// flock(2) stops the write, so it is asked.
func TestFileSystemsWithoutLocks(t *testing.T) {
	for errno, works := range map[syscall.Errno]bool{syscall.ENOLCK: true, syscall.ENOSYS: true, syscall.EOPNOTSUPP: true, syscall.EIO: false} {
		t.Run(errno.Error(), func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), writerVariable+"="+dir, fmt.Sprintf("%s=%d", locklessVariable, errno))
			out, err := cmd.CombinedOutput()
			raw, _ := os.ReadFile(filepath.Join(dir, "f"))
			if works && (err != nil || string(raw) != "second") || !works && (err == nil || len(raw) > 0) {
				t.Errorf("%v %q, the file holds %q", err, out, raw)
			}
			if left, _ := os.ReadDir(dir); works && len(left) != 1 {
				t.Errorf("left: %v", left)
			}
		})
	}
}
