package mux

import "time"

// talk is how many messages that answer nothing a server may send in a second.
// One that sends more is read more slowly: its pipe fills and it waits, and others
// are served meanwhile.
const talk = 2000

// pace counts such messages, and waits where there were too many.
type pace struct {
	since time.Time
	count int
}

func (p *pace) take() {
	now := time.Now()
	if now.Sub(p.since) >= time.Second {
		p.since, p.count = now, 0
	}
	if p.count++; p.count > talk {
		time.Sleep(time.Second - now.Sub(p.since))
	}
}
