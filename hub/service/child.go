package service

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/sallyport-dev/sallyport/hub/upstream"
	"github.com/sallyport-dev/sallyport/internal/mcpjson"
	"github.com/sallyport-dev/sallyport/jail"
)

// child prepares a stdio entry: a private directory, and a jail around it.
func (h *Hub) child(e *mcpjson.Entry) (upstream.Dial, func(), error) {
	dir, err := h.store.Private(e.Name)
	if err != nil {
		return nil, nil, err
	}
	path := h.path()
	program, err := find(e.Command, path)
	if err != nil {
		return nil, nil, err
	}
	// Not InContainer: that would grant /tmp, which all servers share.
	c := jail.Config{Mode: h.set.Jail, Network: jail.None, Writable: []string{dir}, Tasks: h.set.MaxTasks,
		PrivateMounts: h.set.wantsMounts() && jail.CanPrivateMounts() == nil}
	if real := h.programs(); real != "" {
		c.Readable = []string{real}
	}
	j, err := jail.New(c)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrJail, err)
	}
	e.Warnings = append(e.Warnings, j.Notices()...)
	env := []string{"HOME=" + dir, "TMPDIR=" + dir, "PATH=" + path, "LANG=C.UTF-8"}
	for _, key := range slices.Sorted(maps.Keys(e.Env)) {
		env = append(env, key+"="+e.Env[key])
	}
	return upstream.Stdio(upstream.Child{Jail: j, Args: append([]string{program}, e.Args...), Env: env, Dir: dir,
		Log: h.stderr(e.Name)}), func() { _ = j.Close() }, nil
}

// wantsMounts says whether stdio servers want mounts of their own, in which all but
// their directory is read-only, modes and times too. A container is a namespace
// already, and cannot mount in it.
func (s *Settings) wantsMounts() bool { return s.Jail == jail.Full && !s.InContainer }

// programs is the directory of MCP_PROGRAMS without links, or "" where there is
// none.
func (h *Hub) programs() string {
	real, err := filepath.EvalSymlinks(h.set.Programs)
	if h.set.Programs == "" || err != nil || !filepath.IsAbs(real) {
		return ""
	}
	return real
}

// path is the PATH of stdio servers.
func (h *Hub) path() string {
	path := os.Getenv("PATH")
	if dir := h.programs(); dir != "" {
		path = filepath.Join(dir, "bin") + ":" + filepath.Join(dir, "node_modules", ".bin") + ":" + path
	}
	return path
}

// find looks a command up where path says.
func find(command, path string) (string, error) {
	if filepath.IsAbs(command) {
		return command, nil
	}
	for _, dir := range filepath.SplitList(path) {
		file := filepath.Join(dir, command)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 &&
			filepath.IsAbs(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("command: there is no program %q in PATH (%s); install it in MCP_PROGRAMS "+
		"(docs/mcp-json.md, stdio)", command, path)
}
