package upstream

import "time"

// What a server may say for the log, in lines of a second. Those beyond MaxLogged are
// left out, and beyond maxSaid it is read more slowly: its pipe fills and it waits.
const (
	MaxLogged = 200
	maxSaid   = 2000
)

// Chatter bounds what one server has in the log, so that it fills no disk and takes no
// processor from others. It is not for several goroutines at once.
type Chatter struct {
	since         time.Time
	said, omitted int
}

// Say calls log, unless too much was said in this second. omitted is how many lines
// were left out before.
func (c *Chatter) Say(log func(omitted int)) {
	now := time.Now()
	if now.Sub(c.since) >= time.Second {
		c.since, c.said = now, 0
	}
	c.said++
	switch {
	case c.said <= MaxLogged:
		log(c.omitted)
		c.omitted = 0
		return
	case c.said > maxSaid:
		time.Sleep(time.Second - now.Sub(c.since))
	}
	c.omitted++
}
