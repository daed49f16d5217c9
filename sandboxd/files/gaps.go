package files

import (
	"fmt"
	"strconv"
	"strings"
)

// Why a walk or a search did not see something, as a notice has it behind a number.
const (
	gapUnread   = "directories cannot be read"
	gapDeep     = "directories lie deeper than 64 levels and were not entered"
	gapLarge    = "directories have more entries than are read here (50000, with those above them), so some are missing"
	gapName     = "names are not valid UTF-8 and cannot be given here"
	gapSize     = "files are larger than 8 MiB and were not searched"
	gapBinary   = "files are binary (they contain NUL bytes) and were not searched"
	gapUTF16    = "files are UTF-16 and were not searched (iconv -f UTF-16 -t UTF-8 makes text of one)"
	gapEncoding = "files are not valid UTF-8 (perhaps Latin-1) and were not searched"
	gapFile     = "files cannot be read and were not searched"
	gapLine     = "files have a line so long that only its beginning was searched"
)

// gaps collects what was not seen, so that an answer without it does not read
// like "there is none".
type gaps struct {
	causes []string // in the order in which they came
	count  map[string]int
	names  map[string][]string // up to five of each
}

func (g *gaps) add(cause, name string) {
	if g.count == nil {
		g.count, g.names = map[string]int{}, map[string][]string{}
	}
	if g.count[cause]++; g.count[cause] == 1 {
		g.causes = append(g.causes, cause)
	}
	if cause == gapName {
		name = strconv.Quote(name) // of its bytes
	} else {
		name = quote(name)
	}
	if len(g.names[cause]) < 5 {
		g.names[cause] = append(g.names[cause], name)
	}
}

// Notices has a line for each cause, with up to five names.
func (g *gaps) Notices() (lines []string) {
	for _, cause := range g.causes {
		more := ""
		if g.count[cause] > len(g.names[cause]) {
			more = ", …"
		}
		lines = append(lines, fmt.Sprintf("Not all was seen: %d %s: %s%s.", g.count[cause], cause,
			strings.Join(g.names[cause], ", "), more))
	}
	return lines
}
