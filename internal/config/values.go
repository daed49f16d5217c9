package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Text stores a setting as it is.
func Text(p *string) func(string) error {
	return func(v string) error { *p = v; return nil }
}

// Switch stores true or false, and accepts nothing else.
func Switch(p *bool) func(string) error {
	return func(v string) error {
		if v != "true" && v != "false" {
			return fmt.Errorf("must be true or false")
		}
		*p = v == "true"
		return nil
	}
}

// Number stores a decimal number between least and most.
func Number(p *int, least, most int) func(string) error {
	return func(v string) error {
		n, err := strconv.Atoi(v)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a number from %d to %d", least, most)
		}
		*p = n
		return nil
	}
}

// Duration stores a duration such as 5m, between least and most.
func Duration(p *time.Duration, least, most time.Duration) func(string) error {
	return func(v string) error {
		d, err := time.ParseDuration(v)
		if err != nil || d < least || d > most {
			return fmt.Errorf("must be a duration from %v to %v, such as 90s or 5m", least, most)
		}
		*p = d
		return nil
	}
}

// List stores the parts of a comma-separated list without the blanks around
// them. An empty or a repeated part is a mistake.
func List(p *[]string) func(string) error {
	return func(v string) error {
		var parts []string
		for part := range strings.SplitSeq(v, ",") {
			part = strings.TrimSpace(part)
			if part == "" || slices.Contains(parts, part) {
				return fmt.Errorf("must be a comma-separated list without empty or repeated parts")
			}
			parts = append(parts, part)
		}
		*p = parts
		return nil
	}
}

// OneOf stores one of the named choices.
func OneOf[T ~string](p *T, choices ...T) func(string) error {
	return func(v string) error {
		if !slices.Contains(choices, T(v)) {
			names := make([]string, len(choices))
			for i, c := range choices {
				names[i] = string(c)
			}
			return fmt.Errorf("must be one of %s", strings.Join(names, ", "))
		}
		*p = T(v)
		return nil
	}
}
