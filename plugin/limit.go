package plugin

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The kinds of what is limited while it is open, as indexes.
const (
	calls = iota
	streams
)

// limits of one principal.
type limits struct {
	each int64    // nanoseconds in which one more request may come
	room int64    // nanoseconds until the bucket is full with which one may come
	open [2]int64 // calls and streams at once
}

// usage is what one principal of one middleware uses now. It is found by name
// and lives on across reloads, as its streams do. Its bucket holds a minute's
// requests, and remembers only when it will be full again, in nanoseconds (the
// generic cell rate algorithm).
type usage struct {
	full  int64
	open  [2]*atomic.Int64 // changed with usageMu held, except where a request ends
	bytes int64            // of bodies that are not small
}

func newUsage() *usage { return &usage{open: [2]*atomic.Int64{&atomic.Int64{}, &atomic.Int64{}}} }

// take takes one request, or returns the seconds until there will be one.
func take(u *usage, now, each int64) int {
	full := u.full
	if full < now || full > now+int64(time.Minute) { // no bucket is that empty: the clock was set back
		full = now
	}
	if wait := full + each - now - int64(time.Minute); wait > 0 {
		return int(wait/int64(time.Second)) + 1
	}
	u.full = full + each
	return 0
}

// maxUsages bounds the registry. OAuth can bring any number of principals, but
// only with good tokens.
const maxUsages = 4096

var (
	usageMu sync.Mutex
	usages  = map[string]*usage{}
	swept   time.Time
)

// admit counts a request that is not on the fast path: one that opens a stream, or
// does not find its principal's bucket full and a place for a call.
func admit(c *call) bool {
	who := c.who
	u := who.usage
	if c.method == "GET" {
		c.kind = streams
	}
	wait := 1 + 9*c.kind
	why := "open calls or streams"
	usageMu.Lock()
	if u.open[c.kind].Load() < who.limits.open[c.kind] {
		why = "requests per minute"
		wait = take(u, c.now, who.limits.each)
	}
	if wait == 0 {
		u.open[c.kind].Add(1)
		c.usage = u
	}
	usageMu.Unlock()
	return wait == 0 || tooMany(c, wait, why)
}

func tooMany(c *call, wait int, why string) bool {
	c.rw.Header().Set("Retry-After", strconv.Itoa(wait))
	return refuse(c, http.StatusTooManyRequests, "rate_limited", c.who.id+" is over its limit of "+why)
}

// becomeStream counts a POST that stays open for long as a stream, and not as a
// call, until giveMoreBack.
func becomeStream(c *call) bool {
	u := c.usage
	usageMu.Lock()
	room := u.open[streams].Load() < c.who.limits.open[streams]
	if room {
		u.open[calls].Add(-1)
		u.open[streams].Add(1)
		c.kind = streams
	}
	usageMu.Unlock()
	return room || tooMany(c, 10, "open streams")
}

// giveMoreBack is for a request that has taken more than the place of a call.
func (c *call) giveMoreBack() {
	usageMu.Lock()
	if c.kind == streams {
		c.usage.open[calls].Add(1)
		c.usage.open[streams].Add(-1)
	}
	if c.reserved > 0 {
		giveBack(c, c.reserved)
	}
	usageMu.Unlock()
}

// usageOf returns nil where there is no room for one more principal of OAuth.
// At most once a second it forgets who is idle with a full bucket.
func usageOf(e *edge, id string, now time.Time) *usage {
	key := e.name + "\x00" + id
	usageMu.Lock()
	defer usageMu.Unlock()
	u := usages[key]
	if u != nil {
		return u
	}
	if len(usages) >= maxUsages && now.Sub(swept) > time.Second {
		swept = now
		for k, old := range usages {
			// an edge keeps a token's
			if old.open[calls].Load() == 0 && old.open[streams].Load() == 0 && old.full < now.UnixNano() &&
				strings.Contains(k, "\x00oauth:") {
				delete(usages, k)
			}
		}
	}
	if len(usages) >= maxUsages && strings.HasPrefix(id, "oauth:") { // tokens are as many as are configured
		return nil
	}
	u = newUsage()
	usages[key] = u
	return u
}

var (
	failureMu sync.Mutex
	failures  = &recent{} // of *usage, by middleware and address
)

// countFailure returns 0 while the address may go on, or the seconds to wait.
func countFailure(c *call) int {
	key := c.e.name + "\x00" + clientAddress(c.r, c.e.cfg.ClientAddress == "x-forwarded-for")
	failureMu.Lock()
	defer failureMu.Unlock()
	u, ok := failures.get(key).(*usage)
	if !ok {
		u = &usage{}
	}
	failures.put(key, u)
	return take(u, c.start.UnixNano(), int64(time.Minute)/int64(c.e.cfg.FailuresPerMinute))
}

// clientAddress is whom a failure is counted against: an IPv4 address or an
// IPv6 /64, which one host can have all of. Of X-Forwarded-For only the last
// entry counts: the trusted hop wrote it, what stands before came from outside.
func clientAddress(r *http.Request, forwardedFor bool) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	addr, err := netip.ParseAddr(host)
	if values := r.Header["X-Forwarded-For"]; forwardedFor && len(values) > 0 {
		list := strings.Split(values[len(values)-1], ",")
		if last, wrong := netip.ParseAddr(strings.TrimSpace(list[len(list)-1])); wrong == nil {
			addr = last
			err = nil
		}
	}
	if err != nil {
		return host
	}
	addr = addr.Unmap().WithZone("")
	if addr.Is4() {
		return addr.String()
	}
	network, _ := addr.Prefix(64)
	return network.String()
}

// recent is a bounded memory of two generations: when the newer one is full it
// becomes the older one, and the older one is forgotten. So forgetting costs
// nothing, however many keys an attacker has. Its owner locks it.
type recent struct {
	newer, older map[string]interface{}
}

const maxRecent = 4096

func (r *recent) get(key string) interface{} {
	if v, ok := r.newer[key]; ok {
		return v
	}
	return r.older[key]
}

func (r *recent) put(key string, v interface{}) {
	if r.newer == nil || len(r.newer) >= maxRecent {
		r.older = r.newer
		r.newer = map[string]interface{}{}
	}
	r.newer[key] = v
}
