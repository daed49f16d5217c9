package serve

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sallyport-dev/sallyport/internal/procfs"
	"github.com/sallyport-dev/sallyport/sandboxd/command"
)

// privatePrefix begins the name of a server's private directory, which holds the
// persons' own ones (command.Homes), and freshPrefix that of one without a lock yet.
const privatePrefix, freshPrefix = "sallyport-private-", "sallyport-private-new-"

// imagePrivate is where the private directories lie in a container: /tmp there
// is every command's own, and what lies in it would be everybody's.
const imagePrivate = "/private"

// privateDir makes the directory that holds the private ones. One that the owner
// names is kept; else it ends with b. A lock on it says that its server lives.
func (b *Box) privateDir(set Settings) (string, error) {
	if set.PrivateDir == "" && set.InContainer {
		set.PrivateDir = imagePrivate
	}
	if set.PrivateDir != "" {
		return b.keptDir(set.PrivateDir, set.InContainer)
	}
	fresh, err := os.MkdirTemp("", freshPrefix)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(os.TempDir(), privatePrefix+rand.Text()[:12])
	b.onClose(func() error { return errors.Join(os.RemoveAll(fresh), command.RemoveTree(dir)) })
	f, err := os.Open(fresh)
	if err != nil {
		return "", err
	}
	b.onClose(f.Close)
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) // where there are no locks, nothing is swept
	go sweepPrivate(os.TempDir())
	return dir, os.Rename(fresh, dir)
}

// keptDir is a directory below one that the owner chose.
func (b *Box) keptDir(chosen string, container bool) (string, error) {
	dir := filepath.Join(chosen, fmt.Sprintf("persons-%d", os.Geteuid()))
	_, _ = procfs.OpenToOwner(chosen)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		way := fmt.Sprintf("make it for this server's account (install -d -o %d -m 0700 %s)", os.Geteuid(), chosen)
		if container {
			way = fmt.Sprintf("mount something writable at %s (docker run --tmpfs "+
				"%s:rw,exec,nosuid,nodev,mode=1777,size=512m)", chosen, chosen)
		}
		return "", fmt.Errorf("%w: %s, or name another directory with MCP_PRIVATE_DIR", err, way)
	}
	_, _ = procfs.OpenToOwner(dir)
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return "", err
	}
	b.onClose(f.Close)
	var info syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &info); err != nil || int(info.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s belongs to user %d, not to this server: remove it or name another directory with "+
			"MCP_PRIVATE_DIR", dir, info.Uid)
	}
	if err := f.Chmod(0o700); err != nil { // a command of before may have changed it
		return "", err
	}
	if errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK) {
		return "", fmt.Errorf("%s is in use by another server: give each its own MCP_PRIVATE_DIR", dir)
	}
	return dir, nil
}

// sweepPrivate removes what servers that were killed left in temp: their
// commands' caches can be large. A directory whose server lives is locked before
// it gets its name.
func sweepPrivate(temp string) {
	dirs, _ := filepath.Glob(filepath.Join(temp, privatePrefix+"*"))
	for _, dir := range dirs {
		_, _ = procfs.OpenToOwner(dir)
		f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue // not to be read, or no directory
		}
		var info syscall.Stat_t
		err = syscall.Fstat(int(f.Fd()), &info)
		ours := err == nil && int(info.Uid) == os.Getuid() // another's, made to be walked, could change below us
		fresh := strings.HasPrefix(filepath.Base(dir), freshPrefix) &&
			time.Since(time.Unix(info.Mtim.Unix())) < time.Minute
		if ours && !fresh && syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = command.RemoveTree(dir)
		}
		f.Close()
	}
}

// surprises are properties of this machine and workspace that make commands fail
// in ways that do not show the cause.
func surprises(workspace, private string) (lines []string) {
	var stat unix.Statfs_t
	if unix.Statfs(private, &stat) == nil && stat.Flags&unix.ST_NOEXEC != 0 {
		lines = append(lines, fmt.Sprintf("the private directories in %s lie on a file system without exec: what "+
			"commands build in TMPDIR (go test, go run, node-gyp) cannot be run; "+
			"name another place with MCP_PRIVATE_DIR, or mount it with exec", private))
	}
	if where := elsewhere(workspace); where != "" {
		lines = append(lines, where+" lies outside the workspace, so every git command fails: serve the folder that "+
			"holds both, or a clone of its own (git clone)")
	}
	return lines
}

// elsewhere says what git needs that lies outside the workspace.
func elsewhere(workspace string) string {
	if real, err := filepath.EvalSymlinks(workspace); err == nil {
		workspace = real
	}
	dotGit := filepath.Join(workspace, ".git")
	if target, worktree := gitdir(dotGit); worktree {
		if dir, out := leaves(workspace, workspace, target); out {
			return "the workspace is a linked git worktree, whose repository " + dir
		}
	}
	real, err := filepath.EvalSymlinks(dotGit)
	if errors.Is(err, os.ErrNotExist) {
		return above(workspace)
	}
	if _, out := leaves(workspace, "/", real); err == nil && out {
		return "the git repository " + real + ", to which .git is a link,"
	}
	objects := filepath.Join(dotGit, "objects")
	for line := range strings.Lines(firstLines(filepath.Join(objects, "info/alternates"))) {
		if dir, out := leaves(workspace, objects, strings.TrimSpace(line)); out {
			return "the repository " + dir + ", whose objects the workspace's shares (git clone --shared),"
		}
	}
	return ""
}

// above is the repository that the workspace is a part of. Ours, if make run has made
// the workspace in its clone, is not meant.
func above(workspace string) string {
	for dir := filepath.Dir(workspace); dir != "/"; dir = filepath.Dir(dir) {
		_, ours := os.Lstat(filepath.Join(dir, ".sallyport"))
		if _, err := os.Stat(filepath.Join(dir, ".git", "HEAD")); err == nil && ours != nil {
			return "the git repository " + dir + ", of which the workspace is a part,"
		}
	}
	return ""
}

// leaves is the whole path of dir, which may be relative to base, and whether it lies
// outside the workspace.
func leaves(workspace, base, dir string) (path string, out bool) {
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(base, dir)
	}
	rel, err := filepath.Rel(workspace, dir)
	return dir, err != nil || !filepath.IsLocal(rel)
}

// crowded says so where files that commands leave in a container's memory, which no
// process holds, could fill it: the kernel would end the server. An inode takes 1 KiB.
func crowded(dirs ...string) string {
	all, limit, seen := 0, procfs.MemoryLimit(), map[unix.Fsid]bool{}
	var words []string
	for _, dir := range dirs {
		var fs unix.Statfs_t
		if unix.Statfs(dir, &fs) == nil && fs.Type == unix.TMPFS_MAGIC && !seen[fs.Fsid] {
			seen[fs.Fsid] = true
			size := int(fs.Blocks)*int(fs.Bsize)>>20 + int(fs.Files)>>10
			all += size
			words = append(words, fmt.Sprintf("%s %d MiB", dir, size))
		}
	}
	if limit == 0 || all+serverMiB <= limit>>20 {
		return ""
	}
	return fmt.Sprintf("files that commands leave in memory (%s, with 1 KiB for each inode) can fill the "+
		"%d MiB of this container, and the kernel then ends the server: give each of them a size and nr_inodes "+
		"(docs/docker.md), or the container more memory", strings.Join(words, ", "), limit>>20)
}

// serverMiB is what the server itself takes at most, beside commands: it keeps files and output in memory.
const serverMiB = 384

// gitdir is where the file .git of a linked worktree leads. A command may have put
// anything there: a pipe that nobody writes, a link to a device without end.
func gitdir(name string) (target string, worktree bool) {
	return strings.CutPrefix(strings.TrimSpace(firstLines(name)), "gitdir: ")
}

// firstLines are the first 8 KiB of a regular file.
func firstLines(name string) string {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	raw, _ := io.ReadAll(io.LimitReader(f, 8<<10))
	return string(raw)
}

// keepModes keeps keys and tokens closed to other accounts where a command could
// open them to these.
func (b *Box) keepModes(set Settings, log *slog.Logger) {
	if set.noMounts() == "" {
		return
	}
	paths := append(slices.Clip(set.KeepModes), set.TokenFile, set.EgressKeyFile, set.OwnerKeyFile)
	if set.OwnerSocket != "" { // in its place the owner would give the key away
		paths = append(paths, filepath.Dir(set.OwnerSocket), set.OwnerSocket)
	}
	m, err := command.KeepModes(slices.DeleteFunc(paths, func(p string) bool { return p == "" }),
		reports(log))
	if err != nil {
		log.Warn("commands can change the modes of keys and tokens: " + err.Error())
		return
	}
	b.onClose(m.Close)
}

// reports logs modes that were changed back: of each path one a second, or a command
// that changes one over and over would fill the disk.
func reports(log *slog.Logger) func(path string, mode uint32) {
	type past struct {
		at   time.Time
		more int
	}
	said := map[string]*past{}
	return func(path string, mode uint32) {
		p := said[path]
		if p == nil {
			p = &past{}
			said[path] = p
		}
		if time.Since(p.at) < time.Second {
			p.more++
			return
		}
		log.Warn("a command changed the mode, group or access list of "+path+": it was changed back", "mode",
			fmt.Sprintf("%04o", mode),
			"more_before", p.more)
		*p = past{at: time.Now()}
	}
}
