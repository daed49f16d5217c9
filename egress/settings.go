package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/egressrule"
	"github.com/sallyport-dev/sallyport/internal/keysocket"
)

// settings of the process; nothing that sandboxd says changes them.
type settings struct {
	socket, auditFile string
	key               keysocket.Key
	allow             egressrule.List
}

// readSettings reports every mistake at once.
func readSettings(getenv func(string) string) (s settings, err error) {
	var mistakes []error
	add := func(name string, err error) {
		if err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %w", name, err))
		}
	}
	path := func(name string) string {
		v := getenv(name)
		if !filepath.IsAbs(v) {
			add(name, fmt.Errorf("%q must be an absolute path", v))
		}
		return v
	}
	s.socket = path("EGRESS_SOCKET")
	if file := path("EGRESS_KEY_FILE"); filepath.IsAbs(file) {
		s.key, err = keysocket.ReadKey(file)
		add("EGRESS_KEY_FILE", err)
	}
	s.allow, err = egressrule.ParseList(words(getenv("EGRESS_ALLOW")), egressrule.ParseCeiling)
	add("EGRESS_ALLOW", err)
	if len(s.allow) == 0 && err == nil {
		add("EGRESS_ALLOW", errors.New("is empty, so nothing would be allowed: name hosts, or do not start egress"))
	}
	if s.auditFile = getenv("EGRESS_AUDIT_FILE"); s.auditFile != "" && s.auditFile != "-" {
		path("EGRESS_AUDIT_FILE")
	}
	if err := errors.Join(mistakes...); err != nil {
		return s, fmt.Errorf("the settings are wrong:\n%w\n(sallyport-egress -h lists them)", err)
	}
	return s, nil
}

// words are the parts of a list without the blanks around them.
func words(list string) (parts []string) {
	for part := range strings.SplitSeq(list, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}
