package tool

import "time"

// SetProgressEvery lets a test see progress without waiting for it.
func SetProgressEvery(s *Set, d time.Duration) { s.progressEvery = d }
