package tool_test

import (
	"log"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// rootDirVariable names the directory that mountAsRoot prepared.
const rootDirVariable = "SALLYPORT_TEST_ROOT_DIR"

// mountAsRoot prepares, before root is given up, what only root can make: a
// small file system that can be filled, and a device node. It does so in a
// mount namespace of its own, which ends with this process, and starts the test
// again in there.
func mountAsRoot() {
	if os.Geteuid() != 0 || os.Getenv(rootDirVariable) != "" {
		return
	}
	runtime.LockOSThread()
	dir, err := os.MkdirTemp("", "sallyport-test-")
	if err == nil {
		err = unix.Unshare(unix.CLONE_NEWNS)
	}
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, "")
	}
	if err == nil {
		err = unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0777")
	}
	if err != nil {
		log.Printf("no file system to fill: %v", err)
		return
	}
	device := filepath.Join(dir, "device")
	if err := unix.Mknod(device, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5))); err != nil {
		log.Printf("no device node: %v", err)
	} else if err := os.Chmod(device, 0o666); err != nil {
		log.Fatal(err)
	}
	env := append(os.Environ(), rootDirVariable+"="+dir)
	log.Fatal(syscall.Exec("/proc/self/exe", os.Args, env))
}

// smallDisk is a file system of 256 KiB with a device node in it.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := os.Getenv(rootDirVariable)
	if dir == "" {
		needs(t, "root, to mount a small file system and make a device")
	}
	return dir
}

// needs skips loudly where the machine lacks something, and fails in CI.
func needs(t *testing.T, format string, a ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("needs "+format, a...)
	}
	t.Skipf("SKIPPED: needs "+format, a...)
}
