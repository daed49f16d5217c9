package plugin

import "net/http"

// known is what a request was whose headers passed every refusal. All that they
// decide on is in the sum that it is found by, or asked again.
type known struct {
	method string
	who    *principal
}

// maxKnown bounds the known headers of one table: a client can write some in
// many ways, and then all start again.
const maxKnown = 4096

// ordinary are headers that no refusal looks at, or that are asked each time:
// fine without three.
var ordinary = without(fine, "Authorization", "Content-Type", "Origin")

func without(names map[string]bool, removed ...string) map[string]bool {
	left := map[string]bool{}
	for name := range names {
		left[name] = !contains(removed, name)
	}
	return left
}

// admitOther holds the refusals that headers decide on, and the limits.
func admitOther(c *call, plain bool) bool {
	e := c.e
	r := c.r
	h := r.Header
	odd := !served[c.method] || (c.method != "POST" && r.ContentLength != 0) || h["Upgrade"] != nil
	if (!plain && !checkPath(c)) || (odd && !refuseForm(c)) {
		return false
	}
	if o := h["Origin"]; o != nil && (len(o) != 1 || !e.origins[bare(o[0])]) {
		return refuse(c, http.StatusForbidden, "origin", "this Origin is not in allowedOrigins")
	}
	if uint64(c.now-c.secrets.read) > e.keep {
		c.secrets = refresh(e)
	}
	return authenticate(c) && admit(c)
}

// remember is for a call of the usual form that no refusal stopped, with a token
// of the configuration: the next one with these headers is known. It ends with
// the table of secrets.
func remember(c *call) {
	t := c.secrets
	seen := c.head.String()
	c.head.Reset()
	_ = c.r.Header.WriteSubset(&c.head, ordinary)
	if seen != c.head.String() { // a refusal took some out, such as an offer of h2c
		return
	}
	usageMu.Lock()
	if len(t.posts)+len(t.deletes) >= maxKnown {
		t.posts = map[[32]byte]*known{}
		t.deletes = map[[32]byte]*known{}
	}
	switch c.method {
	case "POST":
		t.posts[c.sum] = &known{c.method, c.who}
	case "DELETE":
		t.deletes[c.sum] = &known{c.method, c.who}
	}
	usageMu.Unlock()
}
