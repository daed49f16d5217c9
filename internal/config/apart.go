package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sallyport-dev/sallyport/internal/procfs"
)

// maxLooked is how many entries of a writable directory are looked at for
// another name of a secret: beyond it the file counts as reachable.
const maxLooked = 500_000

// Apart checks that what a setting names does not lie inside one of dirs, in
// which commands write, also when a bind mount or a hard link hides it: places
// on the file system are compared, not paths, so it works inside a container
// too. The error names both paths.
func Apart(setting, path string, dirs ...string) error {
	at, err := procfs.PlaceOf(path)
	if err != nil {
		return fmt.Errorf("%s %q: %w", setting, path, err)
	}
	for _, dir := range dirs {
		place, err := procfs.PlaceOf(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s %q: %w", setting, path, err)
		}
		if place.Holds(at) {
			return fmt.Errorf("%s %q lies inside %q, where commands write: move one of them elsewhere", setting, path,
				dir)
		}
		if err := unlinked(path, dir); err != nil {
			return fmt.Errorf("%s %q %w", setting, path, err)
		}
	}
	return nil
}

// unlinked refuses a file that has another name inside dir.
func unlinked(path, dir string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Sys().(*syscall.Stat_t).Nlink < 2 {
		return nil
	}
	looked := 0
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if looked++; looked > maxLooked {
			return fmt.Errorf("has several names (hard links), and %q is too large to be sure that none of them lies "+
				"there: make it a file of its own", dir)
		}
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if other, err := d.Info(); err == nil && os.SameFile(info, other) {
			return fmt.Errorf("is also %q (a hard link), which commands may read: make it a file of its own", name)
		}
		return nil
	})
	return err
}

// Beside checks that a workspace neither contains a checkout, at any depth, nor
// lies in it: its files are run and obeyed by the owner and by Traefik
// (Makefile, docker-compose.yml, traefik-dynamic.yml, plugin/, bin/). Only the
// folder "workspace" of the checkout may be served. The error names both paths.
func Beside(workspace, checkout string) error {
	w, err := procfs.PlaceOf(workspace)
	if err != nil {
		return fmt.Errorf("workspace %q: %w", workspace, err)
	}
	c, err := procfs.PlaceOf(checkout)
	if err != nil {
		return fmt.Errorf("checkout %q: %w", checkout, err)
	}
	return beside(w, c, workspace, checkout)
}

func beside(w, c procfs.Place, workspace, checkout string) error {
	own := procfs.Place{Device: c.Device, Path: filepath.Join(c.Path, "workspace")}
	switch {
	case w.Holds(c):
		return fmt.Errorf("the workspace %q contains the installation %q: a command could read its tokens and change "+
			"what the owner and Traefik run. "+
			"Serve another directory, or move the installation out of it", workspace, checkout)
	case c.Holds(w) && !own.Holds(w):
		return fmt.Errorf("the workspace %q lies inside the installation %q, whose files the owner and Traefik run: "+
			"of it only %q may be served",
			workspace, checkout, filepath.Join(checkout, "workspace"))
	}
	return nil
}

// BesideInstallationOf is Beside for the installation that a file in .sallyport
// belongs to: a token mounted into a container still shows where it lies.
func BesideInstallationOf(workspace, file string) error {
	w, err := procfs.PlaceOf(workspace)
	if err != nil {
		return fmt.Errorf("workspace %q: %w", workspace, err)
	}
	at, err := procfs.PlaceOf(file)
	if err != nil {
		return fmt.Errorf("%q: %w", file, err)
	}
	root, _, ok := strings.Cut(at.Path, "/.sallyport/")
	if !ok {
		return nil
	}
	return beside(w, procfs.Place{Device: at.Device, Path: root}, workspace, root)
}
