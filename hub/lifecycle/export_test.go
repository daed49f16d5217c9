package lifecycle

import "time"

// Impatient shortens how long a hung server and a full room are waited for.
func Impatient(d time.Duration) (undo func()) {
	a, b := pingBudget, roomWait
	pingBudget, roomWait = d, d
	return func() { pingBudget, roomWait = a, b }
}

// ListWithin shortens how long a server may take to list its tools for the hub.
func ListWithin(d time.Duration) (undo func()) {
	was := listBudget
	listBudget = d
	return func() { listBudget = was }
}

// Hasten shortens the waits for a test; the returned function undoes it.
func Hasten(first, wake time.Duration) (undo func()) {
	a, b := firstWait, wakeBudget
	firstWait, wakeBudget = first, wake
	return func() { firstWait, wakeBudget = a, b }
}

// Waiting is how many calls that wait for the owner a session remembers.
func Waiting(c *Session) (n int) {
	c.waiting.Range(func(any, any) bool { n++; return true })
	return n
}
