package mux

import "time"

// talk is how many messages that answer nothing a server may send in a second.
// One that sends more is read more slowly: its pipe fills and it waits, and others
// are served meanwhile.
const talk = 2000

// A message of the protocol weighs this much; an empty line or noise of a few bytes
// weighs 1, so that what a pipe holds of them is read within about a second and hides no end.
const weighs = 16

// pace weighs such messages, and waits where there were too many.
type pace struct {
	since  time.Time
	weight int
}

// take counts a message of so many bytes.
func (p *pace) take(bytes int) {
	now := time.Now()
	if now.Sub(p.since) >= time.Second {
		p.since, p.weight = now, 0
	}
	if p.weight += min(1+bytes/4, weighs); p.weight > talk*weighs {
		time.Sleep(time.Second - now.Sub(p.since))
	}
}
