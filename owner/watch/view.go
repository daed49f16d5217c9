package watch

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/terminal"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

const keysHelp = `Up, Down  select            Enter  show it whole, with a command's output
a  approve once             g  approve this exact call for 15 minutes
d  deny, with a reason      t  approve this tool of this principal, 15 minutes
s  stop, S  stop at once    p  pause all, P  this principal; again: resume
r  the record of calls      l  sessions and servers
PgUp, PgDn  scroll          q  quit`

// view is the whole page: at most height lines, none wider than width.
func (m *model) view() []string {
	lines := m.header()
	body := m.height - len(lines) - 2
	if it, ok := m.selected(); ok && m.open {
		lines = append(lines, m.opened(it, body)...)
	} else {
		lines = append(lines, m.list(body)...)
		lines = append(lines, m.newest(m.height-2-len(lines))...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	for i := range lines {
		if !strings.HasPrefix(lines[i], "\x1b[7m") {
			lines[i] = fit(lines[i], m.width)
		}
	}
	return append(lines[:m.height-1], invert(m.footer(), m.width))
}

// header has one line for each server, and the pauses.
func (m *model) header() (lines []string) {
	if len(m.servers) == 0 {
		return []string{"asking the servers ..."}
	}
	for _, s := range m.servers {
		name := filepath.Base(filepath.Dir(s.path))
		if s.err != nil {
			lines = append(lines, terminal.Escape(fmt.Sprintf("%-14s DOWN  %v", name, s.err)))
			continue
		}
		line := fmt.Sprintf("%-14s", s.status.Process)
		for _, who := range slices.Sorted(maps.Keys(s.status.Paused)) {
			if who == "" {
				who = "everything"
			}
			line += " PAUSED: " + who
		}
		if !s.status.Audit {
			line += " NO AUDIT"
		}
		line += fmt.Sprintf(" %d waiting, %d running, %d sessions, up %s", s.status.Waiting, s.status.Running,
			s.status.Sessions, approve.Since(s.status.Started))
		lines = append(lines, terminal.Escape(line))
		for _, u := range s.servers {
			if u.State == "disabled" || len(u.Withheld) > 0 {
				lines = append(lines, terminal.Escape(fmt.Sprintf("  %s is %s, %d definitions withheld %s", u.Name,
					u.State, len(u.Withheld), u.Reason)))
			}
		}
	}
	return lines
}

// list shows the items around the selected one.
func (m *model) list(height int) (lines []string) {
	list := m.items()
	switch {
	case m.help:
		return strings.Split(keysHelp, "\n")
	case m.others:
		return m.rest(height)
	case m.record:
		return m.past(height)
	}
	if len(list) == 0 {
		return []string{"", "Nothing runs and nothing waits."}
	}
	at := max(0, slices.IndexFunc(list, func(i item) bool { return i.id() == m.at }))
	first := max(0, min(at-height/2, len(list)-height))
	for i, it := range list[first:min(len(list), first+height)] {
		line := m.line(it)
		if first+i == at {
			line = invert(line, m.width)
		}
		lines = append(lines, line)
	}
	return lines
}

// newest fills the lines below the items with the newest records.
func (m *model) newest(height int) []string {
	if m.help || m.others || m.record || height < 3 || len(m.records) == 0 {
		return nil
	}
	return append([]string{"", "The newest records (r shows more):"}, m.past(height-2)...)
}

// rest lists sessions and the hub's servers.
func (m *model) rest(height int) []string {
	lines := []string{"Sessions (sallyport stop ID ends one):"}
	for _, s := range m.servers {
		for _, one := range s.sessions {
			lines = append(lines, terminal.Escape(fmt.Sprintf("  %-14s %-30s %d requests, last %s ago", one.Name,
				terminal.Line(one.Principal, 60), one.Requests, approve.Since(one.Last))))
		}
	}
	lines = append(lines, "", "Servers of the hub:")
	for _, s := range m.servers {
		for _, u := range s.servers {
			lines = append(lines, terminal.Line(fmt.Sprintf("  %-20s %-8s %-10s %d withheld %s", u.Name, u.Type,
				u.State, len(u.Withheld), u.Reason), 4*m.width))
		}
	}
	m.scroll = max(0, min(m.scroll, len(lines)-height))
	return lines[m.scroll:min(len(lines), m.scroll+height)]
}

func (m *model) line(it item) string {
	if q := it.waiting; q != nil {
		tool := q.Tool
		if q.Server != "" {
			tool = q.Server + "/" + q.Tool
		}
		return terminal.Line(fmt.Sprintf("WAITS   %-8s %-6s %-18s %s %s", q.ID, approve.Since(q.Asked), q.Principal,
			tool, q.Arguments), 4*m.width)
	}
	e := it.running
	return terminal.Escape(fmt.Sprintf("%-7s %-8s %-6s %-18s %s", e.State, e.ID, approve.Since(e.Started),
		terminal.Line(e.Principal, 60), approve.What(*e, 4*m.width)))
}

// opened shows a part of the open item, and notes whether its end was seen.
func (m *model) opened(it item, height int) []string {
	var lines []string
	for _, line := range m.whole(it) {
		lines = append(lines, wrap(line, m.width)...)
	}
	m.scroll = max(0, min(m.scroll, len(lines)-height))
	if it.running != nil { // the newest output
		m.scroll = max(0, len(lines)-height)
	}
	end := min(len(lines), m.scroll+height)
	m.read = m.read || end == len(lines)
	return lines[m.scroll:end]
}

// wrap breaks a line that is wider than the screen; continued lines keep the
// margin of foreign text.
func wrap(line string, width int) (out []string) {
	const margin = "    | "
	head, rest := cut(line, width)
	for rest != "" {
		out = append(out, head)
		head, rest = cut(margin+rest, width)
	}
	return append(out, head)
}

func (m *model) footer() string {
	switch {
	case m.prompt:
		return "Deny. Reason for the client (Enter sends, Esc goes back): " + terminal.Escape(m.reason) + "_"
	case m.said != "":
		return terminal.Escape(m.said)
	case m.record:
		return fmt.Sprintf("Up, PgUp older   Down, PgDn newer   r, Esc back   %d below", m.back)
	case m.others:
		return "Down, PgDn: read on   l, Esc back"
	case m.open && m.runs():
		return "s stop   S stop at once   P pause this principal   Esc back"
	case m.open && !m.read:
		return "Down, PgDn: read on   d deny   Esc back"
	case m.open:
		return "a approve once   g this call, t this tool: 15 min   d deny   Esc back"
	}
	return "Enter open   d deny   s stop   p pause   r record   l lists   ? keys   q quit"
}

// runs reports whether what is selected runs, and does not wait.
func (m *model) runs() bool {
	it, ok := m.selected()
	return ok && it.running != nil
}

func text(name, s string) string {
	if s == "" {
		return ""
	}
	return "--- " + name + "\n" + terminal.Wrap(strings.TrimSuffix(s, "\n")) + "\n"
}
