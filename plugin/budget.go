package plugin

import (
	"bytes"
	"io"
	"net/http"
	"sync"
)

// Bodies are in memory until their request has ended. Small ones are bounded by
// maxConcurrent. What the others take together has a budget, of which one
// principal gets a share, so that it never fills the memory of Traefik, nor takes
// the room of everybody else. Both grow with maxBodyBytes: one body always fits.
const (
	smallBody  = 64 << 10
	bodyShare  = 32 << 20
	bodyBudget = 96 << 20
)

var (
	inFlight int64      // bytes of bodies that are not small; usageMu guards it
	checking sync.Mutex // held while such a body is checked: copies of one are alive at a time
)

// reserve takes n bytes of the budget until the request has ended.
func reserve(c *call, n int64) bool {
	share := int64(bodyShare)
	if c.e.cfg.MaxBodyBytes > share {
		share = c.e.cfg.MaxBodyBytes
	}
	budget := int64(bodyBudget)
	if share*2 > budget {
		budget = share * 2
	}
	why := ""
	u := c.who.usage
	usageMu.Lock()
	if u.bytes+n > share {
		why = "bytes of bodies at once"
	} else if inFlight+n > budget {
		why = "bytes of bodies, which all principals share"
	} else {
		c.reserved = n
		u.bytes += n
		inFlight += n
	}
	usageMu.Unlock()
	if why != "" {
		return tooMany(c, 1, why)
	}
	return true
}

// keepReserved gives back what a body did not need. usageMu is not held.
func keepReserved(c *call, n int64) {
	usageMu.Lock()
	giveBack(c, c.reserved-n)
	usageMu.Unlock()
}

// giveBack is called with usageMu held.
func giveBack(c *call, n int64) {
	c.reserved -= n
	c.who.usage.bytes -= n
	inFlight -= n
}

// checkLarge is for a body that is not small, or does not say how long it is.
func checkLarge(c *call) bool {
	r := c.r
	most := c.e.cfg.MaxBodyBytes
	if r.ContentLength > most {
		return tooLarge(c)
	}
	if r.ContentLength >= 0 {
		return checkReserved(c, r.Body, r.ContentLength)
	}
	head, err := io.ReadAll(io.LimitReader(r.Body, smallBody+1))
	switch {
	case err != nil:
		return unreadable(c, err)
	case int64(len(head)) > most:
		return tooLarge(c)
	case len(head) > smallBody:
		return checkReserved(c, io.NopCloser(io.MultiReader(bytes.NewReader(head), r.Body)), most)
	}
	putBack(r, head)
	wrong := readMessage(c, head)
	return wrong == nil || refuseMessage(c, wrong)
}

// checkReserved reads a body of at most n bytes and checks it.
func checkReserved(c *call, from io.ReadCloser, n int64) bool {
	if !reserve(c, n) {
		return false
	}
	body, err := readBody(http.MaxBytesReader(c.rw, from, n), c.r.ContentLength)
	if err != nil {
		return unreadable(c, err)
	}
	keepReserved(c, int64(len(body)))
	putBack(c.r, body)
	wrong := readAlone(c, body)
	return wrong == nil || refuseMessage(c, wrong)
}

func readAlone(c *call, body []byte) *badMessage {
	checking.Lock()
	defer checking.Unlock()
	return readMessage(c, body)
}
