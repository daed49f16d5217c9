package plugin

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
