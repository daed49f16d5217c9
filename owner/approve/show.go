package approve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/terminal"
)

// margin begins each line of foreign text, so that none can look like ours.
const margin = "    | "

// Show prints a whole call that waits: every argument, and for a write the
// diff instead of the text. Nothing is left out, and no character of it can
// drive the terminal.
func Show(w io.Writer, q approval.Waiting) {
	tool := q.Tool
	if q.Server != "" {
		tool = q.Server + "/" + q.Tool
	}
	held := "its call is held"
	if q.Held == 0 {
		held = "no call is held just now: it has to be made again once you have approved"
	}
	fmt.Fprintf(w, "%s\n  asked %s ago, until %s; %s\n", folded(q.ID+"  "+q.Principal+" wants "+tool),
		time.Since(q.Asked).Round(time.Second), q.Expires.Local().Format("15:04:05"), held)
	for _, a := range arguments(q) {
		line := terminal.Escape(a.name + ": " + a.text)
		if !strings.Contains(a.text, "\n") && terminal.Columns(line) <= terminal.Width {
			fmt.Fprintf(w, "%s%s\n", margin, line)
			continue
		}
		fmt.Fprintf(w, "%s%s\n", margin, folded(a.name+":"))
		block(w, a.text)
	}
	if q.Preview != "" {
		block(w, q.Preview)
	}
}

// folded is one line, whose continuations have the margin.
func folded(line string) string {
	return strings.ReplaceAll(terminal.Wrap(terminal.Escape(line)), "\n", "\n"+margin)
}

// block prints foreign text of several lines.
func block(w io.Writer, text string) {
	for line := range strings.SplitSeq(terminal.Wrap(strings.TrimSuffix(text, "\n")), "\n") {
		fmt.Fprintf(w, "%s  %s\n", margin, line)
	}
}

type argument struct{ name, text string }

// arguments lists the arguments, the command first; those that the preview
// shows better are left to it.
func arguments(q approval.Waiting) (list []argument) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal([]byte(q.Arguments), &members); err != nil {
		return []argument{{"arguments", q.Arguments}}
	}
	for name, value := range members {
		if q.Preview != "" && slices.Contains([]string{"content", "old_text", "new_text"}, name) {
			continue
		}
		list = append(list, argument{name, plain(value)})
	}
	slices.SortFunc(list, func(a, b argument) int {
		if (a.name == "command") != (b.name == "command") {
			return map[bool]int{true: -1, false: 1}[a.name == "command"]
		}
		return strings.Compare(a.name, b.name)
	})
	return list
}

// plain is a string as it is, anything else as JSON.
func plain(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var out bytes.Buffer
	if json.Indent(&out, value, "", "  ") != nil {
		return string(value)
	}
	return out.String()
}
