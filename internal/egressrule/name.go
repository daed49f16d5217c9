package egressrule

import (
	"errors"
	"strings"
)

// Name checks a host name that a command asked for and returns it in lower
// case. It accepts what DNS calls a preferred name (RFC 1034 section 3.5, RFC
// 1123 section 2.1): labels of ASCII letters, digits and hyphens, without a
// dot at the end. Internationalised names are written as xn--.
//
// A name whose last label is a number is refused in every notation, since
// programs read it as an IPv4 address (WHATWG URL, "ends in a number").
func Name(s string) (string, error) { return name(s, true) }

func name(s string, single bool) (string, error) {
	if len(s) == 0 || len(s) > 253 {
		return "", errors.New("a host name has 1 to 253 characters")
	}
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if err := checkLabel(label); err != nil {
			return "", err
		}
	}
	last := labels[len(labels)-1]
	if isNumber(last) {
		return "", errors.New("an IP address is no host name: rules are for names")
	}
	if len(labels) == 1 && !single {
		return "", errors.New("a host name has at least two labels, such as example.com")
	}
	return strings.ToLower(s), nil
}

func checkLabel(label string) error {
	if label == "" {
		return errors.New("a label of the host name is empty (a dot at the end or two in a row)")
	}
	if len(label) > 63 {
		return errors.New("a label of the host name has more than 63 characters")
	}
	if label[0] == '-' || label[len(label)-1] == '-' {
		return errors.New("a label of the host name begins or ends with a hyphen")
	}
	for _, c := range []byte(label) {
		if c != '-' && !isAlnum(c) {
			return errors.New("a host name holds ASCII letters, digits, hyphens and dots only (xn-- for other scripts)")
		}
	}
	return nil
}

func isAlnum(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// isNumber reports a label of digits, or a hexadecimal number as inet_aton(3)
// reads it.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(strings.ToLower(label), "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(label, "0123456789") == ""
}

// Authority reads host:port, as CONNECT has it, or host alone with the default
// port of clear. The name must pass Name; brackets, user parts and IP
// addresses do not.
func Authority(s string, clear bool) (t Target, err error) {
	host, port, hasPort := strings.Cut(s, ":")
	t = Target{Port: defaultPort(clear), Clear: clear}
	if hasPort {
		if t.Port, err = parsePort(port); err != nil {
			return t, err
		}
	}
	t.Name, err = Name(host)
	return t, err
}
