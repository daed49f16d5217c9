package lifecycle

import "time"

// Hasten shortens the waits for a test; the returned function undoes it.
func Hasten(first, wake time.Duration) (undo func()) {
	a, b := firstWait, wakeBudget
	firstWait, wakeBudget = first, wake
	return func() { firstWait, wakeBudget = a, b }
}
