package tools

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// The images that stand in for the public ones, which a machine without a
// registry cannot pull. They have names of their own: a test never changes what
// a public name means on the user's machine.
const (
	DebianImage  = "sallyport-e2e/debian:bookworm"      // for debian:bookworm-slim
	GoImage      = "sallyport-e2e/golang:1.26-bookworm" // for golang:1.26-bookworm
	TraefikImage = "sallyport-e2e/traefik:" + TraefikVersion
)

// Images makes the three images in the Docker engine that answers. It needs
// debootstrap and root the first time.
func Images() error {
	unlock, err := Lock("images")
	if err != nil {
		return err
	}
	defer unlock()
	for _, image := range []struct {
		name string
		make func() error
	}{{DebianImage, importDebian}, {GoImage, buildGoImage}, {TraefikImage, buildTraefikImage}} {
		if exec.Command("docker", "image", "inspect", image.name).Run() == nil {
			continue
		}
		if err := image.make(); err != nil {
			return fmt.Errorf("making the image %s: %w", image.name, err)
		}
	}
	return nil
}

// importDebian keeps the tree as a tar file: the engine's store rarely outlives
// the machine, the cache does.
func importDebian() error {
	tar, err := once("debian-bookworm-"+runtime.GOARCH+".tar", func(tmp string) error {
		dir, err := os.MkdirTemp("", "sallyport-debian-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := os.Chmod(dir, 0o755); err != nil { // it becomes the image's /
			return err
		}
		err = run("", nil, "debootstrap", "--variant=minbase",
			"--include=ca-certificates,git,bash", "bookworm", dir)
		if err != nil {
			return err
		}
		return run("", nil, "tar", "-C", dir, "--exclude=./var/cache/apt/archives/*.deb", "-cf", tmp, ".")
	})
	if err != nil {
		return err
	}
	return run("", nil, "docker", "import", "--change", "CMD [\"bash\"]", tar, DebianImage)
}

// buildGoImage sets what the public image sets, so that a Dockerfile cannot tell
// them apart.
func buildGoImage() error {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	return dockerBuild(strings.TrimSpace(string(out)), GoImage, `FROM `+DebianImage+`
ENV GOTOOLCHAIN=local GOPATH=/go PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
COPY . /usr/local/go
RUN mkdir -p /go/src /go/bin && chmod -R 1777 /go
WORKDIR /go
`)
}

func buildTraefikImage() error {
	bin, err := BuiltTraefik()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sallyport-traefik-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := run("", nil, "cp", bin, filepath.Join(dir, "traefik")); err != nil {
		return err
	}
	return dockerBuild(dir, TraefikImage, `FROM `+DebianImage+`
COPY traefik /usr/local/bin/traefik
WORKDIR /
ENTRYPOINT ["/usr/local/bin/traefik"]
`)
}

// dockerBuild uses the classic builder: the Debian engine comes without buildx.
func dockerBuild(context, tag, dockerfile string) error {
	f, err := os.CreateTemp("", "sallyport-dockerfile-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString(dockerfile); err != nil {
		return err
	}
	f.Close()
	return run("", []string{"DOCKER_BUILDKIT=0"}, "docker", "build", "-q", "-t", tag, "-f", f.Name(), context)
}
