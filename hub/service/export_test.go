package service

// Reload is what the watch over mcp.json does each second.
func Reload(h *Hub) { h.reload() }

// Looks is how often the status was made anew.
func Looks(h *Hub) int {
	h.board.mu.Lock()
	defer h.board.mu.Unlock()
	return h.board.looks
}
