// Package config reads settings from environment variables and flags and reports
// every mistake at once.
package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// A Setting is one environment variable and, unless it is a secret, the flag
// of the same meaning. The same table makes the parser, the help text and the
// documentation, so that they cannot disagree.
type Setting struct {
	Env      string             // such as MCP_BASE_PATH
	Default  string             // used when neither the variable nor the flag is given; "" is none
	Help     string             // one line
	Required bool               // no default will do
	Secret   bool               // no flag, and its value is never repeated in an error
	Bool     bool               // the flag may stand alone
	Set      func(string) error // stores the value, or says what is wrong with it
}

// Flag is the flag's name without the dash: MCP_BASE_PATH is base-path, LOGIN_ADDR addr.
func (s Setting) Flag() string {
	name := strings.TrimPrefix(strings.TrimPrefix(s.Env, "MCP_"), "LOGIN_")
	return strings.ToLower(strings.ReplaceAll(name, "_", "-"))
}

// A Table is every setting of one subcommand.
type Table struct {
	Command  string // such as "sandboxd"
	Intro    string // what the command does, for the help text
	Settings []Setting
}

// Lookup reads one environment variable, as os.LookupEnv does.
type Lookup func(name string) (value string, set bool)

// Parse reads the environment and then the arguments, which win. It collects
// every mistake instead of stopping at the first one. With -h in args the
// error is flag.ErrHelp and nothing was set.
func (t Table) Parse(args []string, env Lookup) (*Mistakes, error) {
	m := &Mistakes{command: t.Command}
	flags, err := t.parseFlags(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil, err
	}
	if err != nil {
		m.Add("%v", err)
	}
	for _, s := range t.Settings {
		s.apply(flags, env, m)
	}
	return m, nil
}

func (t Table) parseFlags(args []string) (map[string]string, error) {
	values := map[string]string{}
	fs := flag.NewFlagSet(t.Command, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, s := range t.Settings {
		store := func(v string) error { values[s.Env] = v; return nil }
		switch {
		case s.Secret:
		case s.Bool:
			fs.BoolFunc(s.Flag(), s.Help, store)
		default:
			fs.Func(s.Flag(), s.Help, store)
		}
	}
	if err := fs.Parse(args); err != nil {
		return values, err
	}
	if fs.NArg() > 0 {
		return values, fmt.Errorf("unexpected argument %q: settings are flags or environment variables", fs.Arg(0))
	}
	return values, nil
}

// apply sets s from the flag, the variable or the default, in this order. A
// variable that is set but empty is a mistake where the default is not empty
// too: an empty value must never mean "off" or "everything".
func (s Setting) apply(flags map[string]string, env Lookup, m *Mistakes) {
	name, value := "-"+s.Flag(), ""
	v, given := flags[s.Env]
	if value = v; !given {
		name = s.Env
		if value, given = env(s.Env); given && value == "" && (s.Default != "" || s.Required) {
			m.Add("%s is set but empty: give it a value or unset it", name)
			return
		}
	}
	if !given || value == "" {
		value = s.Default
	}
	if value == "" {
		if s.Required {
			m.Add("%s is required (%s)", s.Env, s.Help)
		}
		return
	}
	if err := s.Set(value); err != nil && s.Secret {
		m.Add("%s: %v", name, err)
	} else if err != nil {
		m.Add("%s %q: %v", name, value, err)
	}
}

// Unknown returns the MCP_ variables of environ (as os.Environ gives it) that
// this command has no setting for: a misspelt name would leave a default in
// force unnoticed.
func (t Table) Unknown(environ []string) (names []string) {
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		known := slices.ContainsFunc(t.Settings, func(s Setting) bool { return s.Env == name })
		if strings.HasPrefix(name, "MCP_") && !known {
			names = append(names, name)
		}
	}
	return names
}

// WarnUnknown names them in the log. They are no mistakes: clients have MCP_
// variables too, and may share the shell.
func (t Table) WarnUnknown(log *slog.Logger, environ []string) {
	for _, name := range t.Unknown(environ) {
		log.Warn("this variable is no setting of "+t.Command+"; misspelt?", "variable", name)
	}
}

// Usage writes the help text: every setting with variable, flag, default.
func (t Table) Usage(w io.Writer) {
	fmt.Fprintf(w, "usage: %s [flags]\n\n%s\n\nSettings (environment variable, flag, default):\n", t.Command, t.Intro)
	for _, s := range t.Settings {
		name := "-" + s.Flag()
		if s.Secret {
			name = "(no flag: it would be visible to every process)"
		}
		fmt.Fprintf(w, "\n  %s  %s  %s\n      %s\n", s.Env, name, s.defaultText(), s.Help)
	}
}

func (s Setting) defaultText() string {
	switch {
	case s.Required:
		return "[required]"
	case s.Default == "":
		return "[none]"
	}
	return "[" + s.Default + "]"
}
