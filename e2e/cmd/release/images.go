package main

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// ociArchives builds each image and writes it as an archive in the OCI image layout,
// for this machine's architecture. BASES.txt says what they were built on.
func (r release) ociArchives() error {
	if r.images == "none" || exec.Command("docker", "info").Run() != nil {
		fmt.Println("release: images left out: none were asked for, or no Docker engine answers")
		return nil
	}
	base, pinned := pin(cmp.Or(os.Getenv("GO_IMAGE"), "golang:1.26-bookworm"))
	fmt.Println("release:", pinned)
	if err := os.WriteFile(filepath.Join(r.dir, "BASES.txt"), []byte(pinned+"\n"), 0o644); err != nil {
		return err
	}
	for _, folder := range []string{"sandboxd", "hub", "dockerproxy", "egress", "login"} {
		file := filepath.Join(r.root, folder, "Dockerfile")
		if _, err := os.Stat(file); err != nil || r.images != "all" && r.images != folder {
			continue
		}
		tag := "sallyport-" + folder + ":" + r.version
		cmd := exec.Command("docker", "build", "--file", file, "--tag", tag, "--build-arg", "GO_IMAGE="+base, r.root)
		cmd.Env = append(os.Environ(), "DOCKER_BUILDKIT="+cmp.Or(os.Getenv("DOCKER_BUILDKIT"), "0"))
		if text, err := cmd.CombinedOutput(); err != nil {
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

// pin turns a name of a base image into one with a digest, by what the engine knows
// of it, and says what came of it. An image that was made here has none.
func pin(base string) (name, said string) {
	if strings.Contains(base, "@sha256:") {
		return base, "base " + base
	}
	inspect := []string{"image", "inspect", "--format", "{{range .RepoDigests}}{{.}}{{break}}{{end}}", base}
	out, err := exec.Command("docker", inspect...).Output()
	if err != nil { // not pulled yet
		_ = exec.Command("docker", "pull", "--quiet", base).Run() // the build says it again
		out, _ = exec.Command("docker", inspect...).Output()
	}
	if digest := strings.TrimSpace(string(out)); digest != "" {
		return digest, "base " + digest + " (" + base + ")"
	}
	return base, "base " + base + ": NO DIGEST, this image was made here and comes from no registry"
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
		err = path.AppendImage(image, layout.WithAnnotations(map[string]string{
			"io.containerd.image.name": "docker.io/library/" + tag, "org.opencontainers.image.ref.name": r.version}))
	}
	if err == nil {
		err = loadable(dir, tag, image)
	}
	if err != nil {
		return err
	}
	return pack(dir, out)
}

// loadable adds to a layout what `docker load` of every engine reads, as newer engines'
// own `docker save` does.
func loadable(dir, tag string, image v1.Image) error {
	blob := func(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
	config, err := image.ConfigName()
	if err != nil {
		return err
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	entry := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{Config: blob(config), RepoTags: []string{tag}}
	for _, layer := range layers {
		h, err := layer.Digest()
		if err != nil {
			return err
		}
		entry.Layers = append(entry.Layers, blob(h))
	}
	data, err := json.Marshal([]any{entry})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "manifest.json"), data, 0o644)
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
