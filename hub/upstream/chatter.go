package upstream

import (
	"bufio"
	"bytes"
	"time"
)

// MaxLogged is how many lines of a second a server may have in the log. Others are
// left out.
const MaxLogged = 200

// Chatter bounds what one server has in the log, so that it fills no disk. It is not
// for several goroutines at once.
type Chatter struct {
	since         time.Time
	said, omitted int
}

// Say calls log, unless too much was said in this second, and reports whether it did.
// omitted is how many lines were left out before.
func (c *Chatter) Say(log func(omitted int)) bool {
	if now := time.Now(); now.Sub(c.since) >= time.Second {
		c.since, c.said = now, 0
	}
	if c.said++; c.said > MaxLogged {
		c.omitted++
		return false
	}
	log(c.omitted)
	c.omitted = 0
	return true
}

// leaveOut passes over the whole lines that in has, and then waits a little: the
// server's pipe fills, and it takes no processor from others.
func (c *Chatter) leaveOut(in *bufio.Reader) {
	part, _ := in.Peek(in.Buffered())
	end := bytes.LastIndexByte(part, '\n') + 1
	c.omitted += bytes.Count(part[:end], []byte("\n"))
	_, _ = in.Discard(end)
	time.Sleep(5 * time.Millisecond)
}
