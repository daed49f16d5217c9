package session

import "net/http"

// Refuse answers an error of a Table: 503 where there is no room, 403
// to whoever does not own the session, 404 otherwise.
func Refuse(w http.ResponseWriter, err error) {
	switch err {
	case ErrFull:
		w.Header().Set("Retry-After", "30")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case ErrNotOwner:
		http.Error(w, err.Error(), http.StatusForbidden)
	default:
		http.Error(w, err.Error(), http.StatusNotFound)
	}
}
