package main

import (
	"bytes"
	"os"
	"path/filepath"
)

// units writes the systemd units as "make install" does, for binaries in /usr/local.
func (r release) units() error {
	all, err := filepath.Glob(filepath.Join(r.root, "deploy", "*.service"))
	if err != nil {
		return err
	}
	for _, unit := range all {
		text, err := os.ReadFile(unit)
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("@PREFIX@"), []byte("/usr/local"))
		if err := os.WriteFile(filepath.Join(r.dir, filepath.Base(unit)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
