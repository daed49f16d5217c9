package tool

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAppended is the largest file, in bytes, that can still be appended to:
// appending copies it, so that it too is all or nothing.
const maxAppended = 64 << 20

type writeIn struct {
	Path    string `json:"path"`
	Content string `json:"content"`
	Append  bool   `json:"append"`
}

type writeOut struct {
	common
	Path         string `json:"path" jsonschema:"the file written, relative to the workspace, symbolic links followed"`
	BytesWritten int    `json:"bytes_written"`
	Created      bool   `json:"created" jsonschema:"whether the file is new"`
}

func (s *Set) addWriteFile(server *mcp.Server) {
	add(s, server, &mcp.Tool{
		Name:        "write_file",
		Description: "Write a UTF-8 text file in the workspace, replacing it whole or appending to it. Up to 1 MiB of content; missing directories are made; the mode of an existing file is kept. Either the whole change is made or none of it." + s.protection(),
		Annotations: hints("Write a file", false, true, true, false),
		InputSchema: arguments(
			need("path", "string", "file to write, relative to the workspace"),
			need("content", "string", "the text to write"),
			may("append", "boolean", "add to the end of the file instead of replacing it (default false)"),
		),
	}, s.writeFile)
}

func (s *Set) writeFile(_ context.Context, _ *mcp.CallToolRequest, in writeIn) (*writeOut, error) {
	if len(in.Content) > maxFile {
		return nil, fmt.Errorf("the content is %d bytes: at most 1 MiB (%d) is written at once; append the rest", len(in.Content), maxFile)
	}
	if !utf8.ValidString(in.Content) {
		return nil, errors.New("the content is not valid UTF-8 text")
	}
	name, err := s.target(in.Path)
	if err != nil {
		return nil, err
	}
	defer s.lock(name).Unlock()
	created, err := s.replace(name, strings.NewReader(in.Content), in.Append)
	if err != nil {
		return nil, err
	}
	return &writeOut{Path: name, BytesWritten: len(in.Content), Created: created}, nil
}

// target is the file behind name that may be written, symbolic links followed.
func (s *Set) target(name string) (string, error) {
	if err := s.checkPath(name); err != nil {
		return "", err
	}
	if strings.HasSuffix(name, "/") {
		return "", fmt.Errorf("%s ends in a slash: name a file", quote(name))
	}
	real, err := s.resolve(name)
	if err != nil {
		return "", err
	}
	return real, s.unprotected(real)
}

// lock serialises the changes to one file, so that no append or edit that
// starts from the old content is lost. Unrelated files may share a lock.
func (s *Set) lock(name string) *sync.Mutex {
	h := fnv.New32a()
	io.WriteString(h, name)
	m := &s.files[h.Sum32()%uint32(len(s.files))]
	m.Lock()
	return m
}

// replace puts content in the place of name (or of its end), whole or not at
// all: temporary file, fsync, rename, fsync of the directory.
func (s *Set) replace(name string, content io.Reader, appending bool) (created bool, err error) {
	root := s.cfg.Root
	old, err := root.Lstat(name)
	created = errors.Is(err, fs.ErrNotExist)
	switch {
	case created:
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return false, explain(path.Dir(name), err)
		}
	case err != nil:
		return false, explain(name, err)
	case !old.Mode().IsRegular():
		return false, notRegular(name, old)
	case appending:
		f, info, err := s.openRegular(name)
		if err != nil {
			return false, err
		}
		defer f.Close()
		if info.Size() > maxAppended {
			return false, fmt.Errorf("%s is %d bytes: files above 64 MiB are not appended to; use run_command", quote(name), info.Size())
		}
		content = io.MultiReader(io.LimitReader(f, info.Size()), content)
	}
	perm := fs.FileMode(0o644)
	if !created {
		perm = old.Mode().Perm()
	}
	if err := s.swapIn(name, content, perm, created); err != nil {
		return false, explain(name, err)
	}
	return created, nil
}

// swapIn is the part of replace that touches the disk. A new file's mode is
// subject to the umask; an existing one's is kept, without set-id bits.
func (s *Set) swapIn(name string, content io.Reader, perm fs.FileMode, created bool) (err error) {
	root := s.cfg.Root
	var id [8]byte
	rand.Read(id[:])
	temp := path.Join(path.Dir(name), tempPrefix+hex.EncodeToString(id[:]))
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() {
		f.Close()
		if err != nil {
			root.Remove(temp)
		}
	}()
	// The lock tells a sweeping server that the writer is alive: the kernel
	// drops it when the process dies, however it dies.
	if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return err
	}
	if !created {
		if err = f.Chmod(perm); err != nil {
			return err
		}
	}
	if _, err = io.Copy(f, content); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = root.Rename(temp, name); err != nil {
		return err
	}
	dir, openErr := root.OpenFile(path.Dir(name), os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if openErr != nil {
		return nil // moved away meanwhile: the rename itself was done
	}
	defer dir.Close()
	dir.Sync() // some file systems cannot; the change itself is complete
	return nil
}
