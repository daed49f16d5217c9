package doctor

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// checkout is the installation in which doctor was started, or empty.
func checkout() string {
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	if _, err := os.Stat(filepath.Join(here, "docker-compose.yml")); err != nil {
		return ""
	}
	return here
}

// installation lets a command look for what it must never reach: the token of
// this run by its own path, and an installation somewhere in the workspace.
// Nothing is changed and no secret is printed.
func (w *walk) installation(s *mcp.ClientSession) {
	const boundary = "workspace"
	file, err := filepath.Abs(w.file)
	if err != nil {
		w.unseen(boundary, err.Error())
		return
	}
	quoted := "'" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	text, err := w.use(s, "run_command", map[string]any{"command": `for f in ` + quoted +
		` $(find . -maxdepth 8 -path '*/.sallyport/*' -type f \( -name '*token' -o -name key \) 2>/dev/null | head ` +
		`-5); do ` +
		`head -c 1 "$f" >/dev/null 2>&1 && echo "HELD:$f"; done; true`})
	if err != nil {
		w.unseen(boundary, "the command that looks for an installation did not run")
		return
	}
	if _, held, found := strings.Cut(text, "HELD:"); found {
		held, _, _ = strings.Cut(strings.ReplaceAll(held, `\n`, "\n"), "\n")
		w.found(boundary, "workspace-holds-installation", "a command can read %s", held)
		return
	}
	w.ok(boundary, "no command can read %s, and no installation lies in the workspace", w.file)
}
