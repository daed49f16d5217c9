package files

import (
	"strconv"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/terminal"
)

// quote shortens a name for a message.
func quote(name string) string {
	if len(name) > 200 {
		name = strings.ToValidUTF8(name[:200], "") + "…"
	}
	return Quote(name)
}

var escapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// Quote is name as a JSON string in which nothing breaks a line, hides or moves what
// stands beside it: it can be given back to the tools as it stands.
func Quote(name string) string { return `"` + terminal.JSON(escapes.Replace(name)) + `"` }

// Name is name for a row of text: as it is, or Quote of it where it has a character that
// does not show itself, a quote or a backslash, or a colon, with which it could imitate a
// line of another file.
func Name(name string) string {
	if strconv.Quote(name) != `"`+name+`"` || strings.Contains(name, ":") {
		return Quote(name)
	}
	return name
}
