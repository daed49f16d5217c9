package mux

// Subscriptions is how many of them a link remembers.
func Subscriptions(l *Link) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.subs)
}
