package proxy

import (
	"bufio"
	"bytes"
	"errors"
	"net/http"
	"strings"

	"github.com/sallyport-dev/sallyport/egress/decision"
	"github.com/sallyport-dev/sallyport/internal/egressrule"
)

// maxHead bounds the head of a request, in bytes.
const maxHead = 64 << 10

// A head is what a request says before its body.
type head struct {
	asked  string // the authority as it was written
	target egressrule.Target
	raw    []byte // the whole head, ended by an empty line
}

func badRequest(why string) *decision.Refusal {
	return decision.Refuse(decision.BadRequest, "egress speaks HTTP/1.1 as a proxy: %s. Connect through the proxy "+
		"variables of the environment.", why)
}

// readHead reads the head of a request. It is stricter than servers are, so
// that no two of them can see two requests in the same bytes (RFC 9112 section
// 11.2): lines end with CR LF and no line is folded. It takes no byte behind
// the head out of r.
func readHead(r *bufio.Reader) (h head, err error) {
	var lines []string
	for {
		line, err := r.ReadSlice('\n')
		if h.raw = append(h.raw, line...); len(h.raw) > maxHead {
			return h, badRequest("the head has more than 64 KiB")
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return h, err
		}
		whole := h.raw[sum(lines):]
		if !bytes.HasSuffix(whole, []byte("\r\n")) || bytes.ContainsAny(whole[:len(whole)-2], "\r\x00") {
			return h, badRequest("a line does not end with CR LF, or holds a control character")
		}
		if len(whole) == 2 {
			break
		}
		lines = append(lines, string(whole))
	}
	if len(lines) == 0 {
		return h, badRequest("the first line is empty")
	}
	return h, h.parse(strings.TrimSuffix(lines[0], "\r\n"), lines[1:])
}

func sum(lines []string) (n int) {
	for _, l := range lines {
		n += len(l)
	}
	return n
}

// parse understands the request line and the fields that decide where a
// request goes and how long it is.
func (h *head) parse(first string, fields []string) (err error) {
	parts := strings.Split(first, " ")
	if len(parts) != 3 || (parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0") {
		return badRequest("the first line is no request line of HTTP/1.1")
	}
	clear := parts[0] != http.MethodConnect
	if h.asked = parts[1]; clear {
		if h.asked, err = authority(parts[1]); err != nil {
			return err
		}
	}
	if h.target, err = egressrule.Authority(h.asked, clear); err != nil {
		return decision.Refuse(decision.BadName, "egress cannot connect to %q: %v.", cut(h.asked), err)
	}
	return checkFields(fields, h.target)
}

// authority is that of an absolute-form target (RFC 9112 section 3.2.2).
func authority(target string) (string, error) {
	scheme, rest, ok := strings.Cut(target, "://")
	switch {
	case !ok:
		return "", badRequest("the target is no absolute URL")
	case strings.EqualFold(scheme, "https"):
		return "", badRequest("https is for CONNECT")
	case !strings.EqualFold(scheme, "http"):
		return "", badRequest("only http and CONNECT are for proxies")
	}
	host, _, _ := strings.Cut(rest, "/")
	if i := strings.IndexAny(host, "?#"); i >= 0 {
		host = host[:i]
	}
	return host, nil
}

// checkFields refuses a foreign Host and whatever could frame a body twice.
func checkFields(fields []string, t egressrule.Target) error {
	seen := map[string]int{}
	for _, line := range fields {
		name, value, ok := strings.Cut(strings.TrimSuffix(line, "\r\n"), ":")
		if !ok || name == "" || strings.Trim(strings.ToLower(name), tokenChars) != "" {
			return badRequest("a header field has no proper name")
		}
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		seen[name]++
		switch name {
		case "host":
			if got, err := egressrule.Authority(value, t.Clear); err != nil || got != t {
				return badRequest("Host is not the host of the target")
			}
		case "transfer-encoding":
			if !strings.EqualFold(value, "chunked") {
				return badRequest("the only transfer coding is chunked")
			}
		case "content-length":
			if strings.Trim(value, "0123456789") != "" {
				return badRequest("Content-Length is no number")
			}
		}
	}
	if seen["host"] > 1 || seen["content-length"]+seen["transfer-encoding"] > 1 {
		return badRequest("Host, Content-Length or Transfer-Encoding is there twice, or both of the last")
	}
	return nil
}

// tokenChars are those of a field name in lower case (RFC 9110 section 5.6.2).
const tokenChars = "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"

// cut bounds what a message repeats of a client's words.
func cut(s string) string { return s[:min(len(s), 300)] }
