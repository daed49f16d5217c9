package mcphttp

import (
	"net/http"
	"strconv"
	"strings"
)

// accepts says in which forms a client takes an answer (RFC 9110, section
// 12.5.1). Without an Accept header it takes any.
func accepts(h http.Header) (events, plain bool) {
	values := h["Accept"]
	if len(values) == 0 {
		return true, true
	}
	for _, value := range values {
		for value != "" {
			var part string
			part, value, _ = strings.Cut(value, ",")
			kind, params, _ := strings.Cut(part, ";")
			if params != "" && refused(params) {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(kind)) {
			case "*/*":
				return true, true
			case "text/event-stream", "text/*":
				events = true
			case "application/json", "application/*":
				plain = true
			}
		}
	}
	return events, plain
}

// refused reports a weight of 0: "not acceptable" (RFC 9110, section 12.4.2).
func refused(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		if weight, ok := strings.CutPrefix(strings.ToLower(strings.TrimSpace(param)), "q="); ok {
			q, err := strconv.ParseFloat(weight, 64)
			return err == nil && q == 0
		}
	}
	return false
}
