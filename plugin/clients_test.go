package plugin

import (
	"encoding/json"
	"reflect"
	"strings"
)

// sse is an event as some client dispatches it.
type sse struct{ kind, data string }

// clientViews are the events that kinds of clients find in a stream. What follows
// the last line end is a line too: some take it when the stream ends.
func clientViews(stream string) map[string][]sse {
	crlf := strings.NewReplacer("\r\n", "\n", "\r", "\n")
	all := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\x1c", "\n", "\x1d", "\n", "\x1e", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
	var latin []rune
	for _, b := range []byte(stream) {
		latin = append(latin, rune(b))
	}
	unmarked := strings.TrimPrefix(stream, byteOrderMark)
	return map[string][]sse{
		"the standard":              standard(strings.Split(crlf.Replace(unmarked), "\n"), false),
		"any case, with spaces":     standard(strings.Split(crlf.Replace(stream), "\n"), true),
		"Python's splitlines":       standard(strings.Split(all.Replace(unmarked), "\n"), false),
		"splitlines, with spaces":   standard(strings.Split(all.Replace(stream), "\n"), true),
		"LF only, trimmed (mcp-go)": lineFeedOnly(stream),
		"Latin-1":                   standard(strings.Split(all.Replace(string(latin)), "\n"), false),
		"Latin-1, with spaces":      standard(strings.Split(all.Replace(string(latin)), "\n"), true),
	}
}

func standard(lines []string, loose bool) []sse {
	var events []sse
	var e sse
	var data []string
	for i := 0; i <= len(lines); i++ {
		if i == len(lines) || lines[i] == "" {
			if data != nil {
				e.data = strings.Join(data, "\n")
				events = append(events, e)
			}
			e = sse{}
			data = nil
			continue
		}
		name, value, _ := strings.Cut(lines[i], ":")
		value = strings.TrimPrefix(value, " ")
		if loose {
			name = strings.ToLower(strings.Trim(name, looseSpace))
			value = strings.Trim(value, looseSpace)
		}
		if name == "event" {
			e.kind = value
		}
		if name == "data" {
			data = append(data, value)
		}
	}
	return events
}

// lineFeedOnly keeps the type until some data comes, and the last data.
func lineFeedOnly(stream string) []sse {
	var events []sse
	var e sse
	for _, line := range append(strings.Split(stream, "\n"), "") {
		line = strings.TrimRight(line, "\r\n")
		switch {
		case line == "" && e.data != "":
			events = append(events, e)
			e = sse{}
		case strings.HasPrefix(line, "event:"):
			e.kind = strings.TrimSpace(strings.TrimPrefix(line, "event:"))
		case strings.HasPrefix(line, "data:"):
			e.data = strings.TrimSpace(strings.TrimPrefix(line, "data:"))
		}
	}
	return events
}

func sameJSON(a, b string) bool {
	var x, y interface{}
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}
