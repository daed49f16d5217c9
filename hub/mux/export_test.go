package mux

// Subscriptions is how many of them a link remembers.
func Subscriptions(l *Link) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.subs)
}

// Asked is how many requests of the server wait for a client's answer.
func Asked(l *Link) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.asked)
}

// Answers receives a line of the server, and reports whether it is left out of the pace.
func Answers(l *Link, raw []byte) bool { return l.receive(raw) }
