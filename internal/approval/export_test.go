package approval

import "time"

// SetExpiry makes requests and decisions expire earlier.
func (s *Store) SetExpiry(d time.Duration) { s.expiry = d }

// SetDefaultExpiry does so for the stores to come.
func SetDefaultExpiry(d time.Duration) { expiry = d }
