package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ociArchives builds each image and writes it as an archive in the OCI image layout.
// GO_IMAGE names the base, by digest where a registry served it.
func (r release) ociArchives() error {
	if !r.images || exec.Command("docker", "info").Run() != nil {
		fmt.Println("release: images left out: no Docker engine answers")
		return nil
	}
	for _, folder := range []string{"sandboxd", "hub", "dockerproxy", "egress", "login"} {
		file := filepath.Join(r.root, folder, "Dockerfile")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		tag := "sallyport-" + folder + ":" + r.version
		args := []string{"build", "--file", file, "--tag", tag}
		if base := os.Getenv("GO_IMAGE"); base != "" {
			args = append(args, "--build-arg", "GO_IMAGE="+base)
		}
		if text, err := exec.Command("docker", append(args, r.root)...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", folder, err, text)
		}
		err := r.archive(tag, filepath.Join(r.dir, "sallyport-"+folder+".oci.tar"))
		_ = exec.Command("docker", "image", "rm", tag).Run() // only the name that was made here
		if err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

func (r release) archive(tag, out string) error {
	home, err := os.MkdirTemp("", "sallyport-oci-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	saved := filepath.Join(home, "saved.tar")
	if text, err := exec.Command("docker", "save", "--output", saved, tag).CombinedOutput(); err != nil {
		return fmt.Errorf("docker save: %w\n%s", err, text)
	}
	image, err := tarball.ImageFromPath(saved, nil)
	if err != nil {
		return err
	}
	dir := filepath.Join(home, "layout")
	path, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = path.AppendImage(image)
	}
	if err != nil {
		return err
	}
	return pack(dir, out)
}

// pack writes a folder as a tar with nothing of this machine in it.
func pack(dir, out string) (err error) {
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	w := tar.NewWriter(f)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: filepath.ToSlash(rel), Mode: 0o644, Size: info.Size()}); err != nil {
			return err
		}
		in, err := os.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		_, err = io.Copy(w, in)
		return err
	})
	return errors.Join(err, w.Close())
}
