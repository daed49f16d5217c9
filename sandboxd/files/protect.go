package files

import (
	"fmt"
	"path"
	"strings"
	"unicode"
)

// DefaultProtected are the paths that Write and Edit leave alone: what another
// program on the owner's side would run by itself later. An entry is one or more
// names joined by slashes (each may hold the wildcards of path.Match); it covers
// every path in which those names follow each other, at any depth, and all that
// lies inside. It keeps a careless model from harm and is no security boundary: a command can
// write there.
var DefaultProtected = []string{
	".git", ".gitconfig", ".gitmodules", ".husky", ".pre-commit-config.yaml",
	".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".bash_aliases", ".profile", ".inputrc",
	".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".config/fish",
	".envrc", ".mcp.json", ".vscode", ".idea", ".devcontainer", ".cursor", ".claude", ".gemini", ".codex", ".ssh",
	".netrc",
	".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", ".gdbinit", ".lldbinit", ".vimrc", ".nvimrc", ".exrc",
	"mise.toml", ".mise.toml", ".tool-versions",
	".cargo/config.toml", ".cargo/config", ".bazelrc", "pip.conf", ".pypirc", ".github/workflows", ".github/actions",
	".gitlab-ci.yml", ".circleci",
	"CLAUDE.md", "CLAUDE.local.md", "AGENTS.md", "GEMINI.md", ".cursorrules", ".windsurfrules", ".clinerules",
}

// ParseProtected reads a comma-separated list of such entries. "default" among
// them stands for DefaultProtected; "none" alone protects nothing.
func ParseProtected(value string) ([]string, error) {
	list := []string{}
	if value == "none" {
		return list, nil
	}
	for entry := range strings.SplitSeq(value, ",") {
		entry = strings.Trim(strings.TrimSpace(entry), "/")
		if entry == "default" {
			list = append(list, DefaultProtected...)
			continue
		}
		if _, err := path.Match(entry, ""); err != nil || entry == "" || path.Clean(entry) != entry ||
			strings.HasPrefix(entry, "..") || entry == "." || entry == "none" {
			return nil, fmt.Errorf("%q is not a protected path: write names joined by slashes, such as .git/hooks or "+
				"deploy/*.yml; or default, or none alone", entry)
		}
		list = append(list, entry)
	}
	return list, nil
}

// unprotected refuses a resolved path that an entry covers. Case does not
// count, nor do characters that cannot be seen: there are file systems on which
// .GIT, or .git with a zero-width joiner in it, is .git.
func (w *Workspace) unprotected(name string) error {
	parts := strings.Split(strings.ToLower(strings.Map(visible, name)), "/")
	for _, entry := range w.protected {
		want := strings.Split(strings.ToLower(entry), "/")
		for i := 0; i+len(want) <= len(parts); i++ {
			if covers(want, parts[i:]) {
				return fmt.Errorf("%s is protected by the owner's entry %q, because other programs run what stands "+
					"there: ask the owner to make this change", quote(name), entry)
			}
		}
	}
	return nil
}

// visible drops format characters (zero-width, direction, byte order mark).
func visible(c rune) rune {
	if unicode.Is(unicode.Cf, c) {
		return -1
	}
	return c
}

func covers(want, parts []string) bool {
	for i, w := range want {
		if ok, err := path.Match(w, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
