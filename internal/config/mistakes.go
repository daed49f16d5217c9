package config

import (
	"errors"
	"fmt"
	"strings"
)

// Mistakes collects what is wrong with the settings, so that the owner sees
// all of it at once.
type Mistakes struct {
	command string
	list    []string
}

// Add records one mistake.
func (m *Mistakes) Add(format string, args ...any) {
	m.list = append(m.list, fmt.Sprintf(format, args...))
}

// Unless records a mistake where ok is false.
func (m *Mistakes) Unless(ok bool, format string, args ...any) {
	if !ok {
		m.Add(format, args...)
	}
}

// AddError records err, if there is one.
func (m *Mistakes) AddError(err error) {
	if err != nil {
		m.Add("%v", err)
	}
}

// Err is nil without mistakes, else one error that lists them all.
func (m *Mistakes) Err() error {
	if len(m.list) == 0 {
		return nil
	}
	head := fmt.Sprintf("%d mistakes in the settings", len(m.list))
	if len(m.list) == 1 {
		head = "a mistake in the settings"
	}
	return errors.New(head + ":\n  - " + strings.Join(m.list, "\n  - ") +
		"\n" + m.command + " -h lists every setting")
}
