package approval

import "time"

// SetExpiry makes requests and decisions expire earlier.
func (s *Store) SetExpiry(d time.Duration) { s.expiry = d }
