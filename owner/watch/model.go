package watch

import (
	"slices"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/approval"
	"github.com/sallyport-dev/sallyport/internal/desk"
	"github.com/sallyport-dev/sallyport/internal/ownersock"
	"github.com/sallyport-dev/sallyport/owner/approve"
)

// model is what the page shows and where the owner is on it.
type model struct {
	width, height int
	servers       []seen // by path
	at            string // the id of the selected item
	open          bool   // it is shown whole
	scroll        int    // of the open item, in lines
	read          bool   // its last line was on the screen
	prompt        bool   // a reason is being typed
	reason        string
	help          bool
	others        bool // sessions and servers are shown instead of calls
	records       []past
	back          int  // how many records lie below the screen
	record        bool // the records are shown instead of calls
	said          string
}

// item is one line that can be selected.
type item struct {
	path    string
	waiting *approval.Waiting
	running *desk.Entry
}

func (i item) id() string {
	if i.waiting != nil {
		return i.waiting.ID
	}
	return i.running.ID
}

// take puts what a server said in its place.
func (m *model) take(v seen) {
	at := slices.IndexFunc(m.servers, func(s seen) bool { return s.path == v.path })
	if at < 0 {
		m.servers = append(m.servers, v)
		slices.SortFunc(m.servers, func(a, b seen) int { return strings.Compare(a.path, b.path) })
	} else {
		m.servers[at] = v
	}
	if v.said != "" {
		m.said = v.said
	}
	if _, ok := m.selected(); !ok {
		m.open, m.prompt = false, false
	}
}

// remember takes the records; one that is being read stays where it is.
func (m *model) remember(list []past) {
	if at := len(m.records) - 1 - m.back; m.back > 0 && at >= 0 {
		read := m.records[at]
		i := slices.IndexFunc(list, func(p past) bool {
			return p.process == read.process && p.record.Seq == read.record.Seq
		})
		m.back = len(list) - 1 - max(0, i)
	}
	m.records = list
}

// items lists what waits, then what runs. A call that waits is listed once.
func (m *model) items() (list []item) {
	for s := range m.servers {
		for w := range m.servers[s].waiting {
			list = append(list, item{m.servers[s].path, &m.servers[s].waiting[w], nil})
		}
	}
	for s := range m.servers {
		for r := range m.servers[s].running {
			if e := &m.servers[s].running[r]; e.State != "waiting" {
				list = append(list, item{m.servers[s].path, nil, e})
			}
		}
	}
	return list
}

// selected is the item with the id at. Without one it is the first.
func (m *model) selected() (item, bool) {
	list := m.items()
	if i := slices.IndexFunc(list, func(i item) bool { return i.id() == m.at }); i >= 0 {
		return list[i], true
	}
	if len(list) > 0 && !m.open {
		m.at = list[0].id()
		return list[0], true
	}
	return item{}, false
}

// press does what a key means.
func (m *model) press(k string) act {
	m.said = ""
	if m.prompt {
		return m.typed(k)
	}
	it, ok := m.selected()
	switch k {
	case "q":
		return act{quit: true}
	case "?":
		m.help, m.open = !m.help, false
	case "l":
		m.others, m.open, m.record, m.scroll = !m.others, false, false, 0
	case "r":
		m.record, m.open, m.others, m.back = !m.record, false, false, 0
	case keyUp, "k":
		return m.move(-1)
	case keyDown, "j":
		return m.move(1)
	case keyPgUp:
		m.scrolled(-m.height / 2)
	case keyPgDn, " ":
		m.scrolled(m.height / 2)
	case keyEnter:
		m.open, m.scroll, m.read = ok && !m.open && !m.elsewhere(), 0, false
		if ok && m.open && it.running != nil {
			return act{path: it.path, watch: it.id(), request: ownersock.Request{Op: ownersock.OpOutput}}
		}
	case keyEsc:
		m.open, m.help, m.others, m.record = false, false, false, false
	case "p":
		return m.pause("")
	default:
		if ok && !m.elsewhere() {
			return m.decide(k, it)
		}
	}
	return act{}
}

// elsewhere means that the calls are not on the screen: no key may mean one.
func (m *model) elsewhere() bool { return m.others || m.record || m.help }

// decide is for the keys that mean the selected item. What waits can be
// approved only once it was shown to its end.
func (m *model) decide(k string, it item) act {
	scope := map[string]string{"a": approval.Once, "g": approval.Digest, "t": approval.Tool}[k]
	switch {
	case scope != "" && it.waiting != nil && !(m.open && m.read):
		m.said = "open it with Enter and read it to its end, then approve"
	case scope != "" && it.waiting != nil:
		return act{path: it.path, request: ownersock.Request{Op: ownersock.OpDecide, ID: it.id(), Approve: true,
			For: scope}}
	case k == "d" && it.waiting != nil:
		m.prompt, m.reason = true, ""
	case (k == "s" || k == "S") && it.running != nil:
		return act{path: it.path, request: ownersock.Request{Op: ownersock.OpStop, ID: it.id(), Now: k == "S"}}
	case k == "P" && it.waiting != nil:
		return m.pause(it.waiting.Principal)
	case k == "P":
		return m.pause(it.running.Principal)
	}
	return act{}
}

// pause pauses, or ends the pause.
func (m *model) pause(principal string) act {
	op := ownersock.OpPause
	for _, s := range m.servers {
		if _, paused := s.status.Paused[principal]; paused {
			op = ownersock.OpResume
		}
	}
	return act{request: ownersock.Request{Op: op, Principal: principal}}
}

// typed is for the keys of the prompt for a reason.
func (m *model) typed(k string) act {
	switch k {
	case keyEsc:
		m.prompt = false
	case keyBack:
		if r := []rune(m.reason); len(r) > 0 {
			m.reason = string(r[:len(r)-1])
		}
	case keyEnter:
		m.prompt = false
		if it, ok := m.selected(); ok && it.waiting != nil {
			return act{path: it.path, request: ownersock.Request{Op: ownersock.OpDecide, ID: it.id(), Reason: m.reason}}
		}
	default:
		if len([]rune(k)) == 1 && len(m.reason) < 200 {
			m.reason += k
		}
	}
	return act{}
}

// move selects another item, or scrolls the open one.
func (m *model) move(by int) act {
	if m.open || m.others || m.record {
		m.scrolled(by)
		return act{}
	}
	list := m.items()
	i := slices.IndexFunc(list, func(i item) bool { return i.id() == m.at })
	if i += by; i >= 0 && i < len(list) {
		m.at = list[i].id()
	}
	return act{}
}

// scrolled moves what is shown by lines.
func (m *model) scrolled(by int) {
	if m.record {
		m.back = max(0, m.back-by)
	} else {
		m.scroll = max(0, m.scroll+by)
	}
}

// whole is the open item as lines.
func (m *model) whole(it item) []string {
	var b strings.Builder
	if it.waiting != nil {
		approve.Show(&b, *it.waiting)
	} else {
		b.WriteString(approve.What(*it.running, 4096) + "\n")
		for _, s := range m.servers {
			if s.path == it.path && s.outputOf == it.id() {
				b.WriteString(text("stdout", s.output.Stdout) + text("stderr", s.output.Stderr))
			}
		}
	}
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}
