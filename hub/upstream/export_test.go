package upstream

import "time"

// HastenCancel shortens what a server gets to end a canceled request.
func HastenCancel(d time.Duration) (undo func()) {
	old := cancelGrace
	cancelGrace = d
	return func() { cancelGrace = old }
}
