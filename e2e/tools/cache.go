// Package tools makes what the tests need and what is slow to make: Traefik, the
// compose command, base images and npm packages. Each lies in a cache outside the
// checkout, under a name that holds its version and a hash of what it was made
// from, so a second run finds it and a changed input makes it anew.
package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Cache returns the cache folder: $SALLYPORT_CACHE, or sallyport in the user's
// own cache folder.
func Cache() (string, error) {
	dir := os.Getenv("SALLYPORT_CACHE")
	if dir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(base, "sallyport")
	}
	return dir, os.MkdirAll(dir, 0o755)
}

// Lock takes the named lock of this machine and waits for it as long as it
// takes. The lock goes with the process, or with the returned function.
func Lock(name string) (unlock func(), err error) {
	dir, err := Cache()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, name+".lock"), os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

// once returns the path of the cached name and makes it first if it is missing.
// make writes to the path it is given, which becomes the name only if it
// succeeds: a killed run leaves nothing half made.
func once(name string, make func(tmp string) error) (string, error) {
	dir, err := Cache()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	unlock, err := Lock(name)
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	tmp := path + ".part"
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := make(tmp); err != nil {
		return "", fmt.Errorf("making %s: %w", name, err)
	}
	return path, os.Rename(tmp, path)
}

// Cached reports whether the cache holds something whose name begins with prefix.
func Cached(prefix string) bool {
	dir, err := Cache()
	if err != nil {
		return false
	}
	found, err := filepath.Glob(filepath.Join(dir, prefix+"*"))
	return err == nil && len(found) > 0
}

// Root returns the checkout: the first folder upwards that holds e2e/go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "e2e", "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside a checkout of sallyport")
		}
	}
}

// hashOf names the contents of folders and the given words in 12 hex digits.
func hashOf(folder string, words ...string) (string, error) {
	h := sha256.New()
	io.WriteString(h, strings.Join(words, "\x00"))
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "\x00%s\x00%d\x00", strings.TrimPrefix(path, folder), len(data))
		h.Write(data)
		return err
	})
	return hex.EncodeToString(h.Sum(nil))[:12], err
}

// run runs a command in dir and returns its last output with the error.
func run(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if len(out) > 4096 {
		out = out[len(out)-4096:]
	}
	return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
}
