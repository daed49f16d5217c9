package plugin

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The kinds of what is limited while it is open, as indexes.
const (
	calls = iota
	streams
)

// limits of one principal.
type limits struct {
	perMinute int
	open      [2]int // calls and streams at once
}

// bucket is a token bucket that holds a minute's worth. It remembers only when it
// will be full again, in nanoseconds (the generic cell rate algorithm).
type bucket struct{ full int64 }

// take takes one token, or returns the seconds until there will be one.
func take(b *bucket, now int64, perMinute int) int {
	each := int64(time.Minute) / int64(perMinute)
	full := b.full
	if full < now {
		full = now
	}
	if wait := full + each - now - int64(time.Minute); wait > 0 {
		return int(wait/int64(time.Second)) + 1
	}
	b.full = full + each
	return 0
}

// usage is what one principal of one middleware uses now. It is found by name
// and lives on across reloads, as its streams do.
type usage struct {
	bucket bucket
	open   [2]int
}

// maxUsages bounds the registry. OAuth can bring any number of principals, but
// only with good tokens.
const maxUsages = 4096

var (
	usageMu sync.Mutex
	usages  = map[string]*usage{}
	swept   time.Time
)

// admit counts the request against its principal's limits.
func admit(c *call) bool {
	if c.method == http.MethodGet {
		c.kind = streams
	}
	u := c.who.usage
	if u == nil {
		u = usageOf(c.e, c.who.id, c.start)
	}
	if u == nil {
		return tooMany(c, 60, "principals")
	}
	usageMu.Lock()
	why := "requests per minute"
	wait := take(&u.bucket, c.start.UnixNano(), c.who.limits.perMinute)
	if wait == 0 {
		wait, why = enter(c, u)
	}
	usageMu.Unlock()
	return wait == 0 || tooMany(c, wait, why)
}

// enter takes a place of the call's kind, or returns how many seconds to wait
// and for what.
func enter(c *call, u *usage) (int, string) {
	if u.open[c.kind] >= c.who.limits.open[c.kind] {
		return 1 + 9*c.kind, "open calls or streams"
	}
	u.open[c.kind]++
	c.usage = u
	return 0, ""
}

func tooMany(c *call, wait int, why string) bool {
	c.rw.Header().Set("Retry-After", strconv.Itoa(wait))
	return refuse(c, http.StatusTooManyRequests, "limit", c.who.id+" is over its limit of "+why)
}

// becomeStream counts a POST that opens a long stream as one.
func becomeStream(c *call) bool {
	u := c.usage
	leave(c)
	c.usage = nil
	c.kind = streams
	usageMu.Lock()
	wait, why := enter(c, u)
	usageMu.Unlock()
	return wait == 0 || tooMany(c, wait, why)
}

// leave gives a call's place back.
func leave(c *call) {
	usageMu.Lock()
	c.usage.open[c.kind]--
	usageMu.Unlock()
}

// usageOf returns nil where there is no room for one more principal. At most
// once a second it forgets who is idle with a full bucket.
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
			if old.open == [2]int{} && old.bucket.full < now.UnixNano() {
				delete(usages, k)
			}
		}
	}
	if len(usages) >= maxUsages {
		return nil
	}
	u = &usage{}
	usages[key] = u
	return u
}

var (
	failureMu sync.Mutex
	failures  = &recent{} // of *bucket, by middleware and address
)

// countFailure returns 0 while the address may go on, or the seconds to wait.
func countFailure(c *call) int {
	key := c.e.name + "\x00" + clientAddress(c.r, c.e.cfg.ClientAddress == "x-forwarded-for")
	failureMu.Lock()
	defer failureMu.Unlock()
	b, ok := failures.get(key).(*bucket)
	if !ok {
		b = &bucket{}
	}
	failures.put(key, b)
	return take(b, c.start.UnixNano(), c.e.cfg.FailuresPerMinute)
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
