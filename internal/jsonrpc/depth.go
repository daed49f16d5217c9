package jsonrpc

// MaxDepth is how many levels of arrays and objects a client's message may have:
// what any server's parser can recurse. The edge has the same bound.
const MaxDepth = 128

// TooDeep reports valid JSON with more levels than MaxDepth.
func TooDeep(raw []byte) bool {
	for i, depth := 0, 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ { // valid JSON ends its strings
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case '}', ']':
			depth--
		}
	}
	return false
}
