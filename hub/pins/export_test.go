package pins

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Hold locks a server's pins as another process would, until release.
func Hold(t *testing.T, dir, server string) (release func()) {
	t.Helper()
	lock, err := os.OpenFile(filepath.Join(dir, "pins", "."+server+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { lock.Close() }
}
