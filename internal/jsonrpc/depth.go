package jsonrpc

// MaxDepth is how many levels of arrays and objects a client's message may have:
// what any server's parser can recurse. The edge has the same bound.
const MaxDepth = 128

// TooDeep reports valid JSON with more levels than MaxDepth.
func TooDeep(raw []byte) bool {
	for i, depth := 0, 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			i = skipString(raw, i) - 1
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
