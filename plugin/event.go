package plugin

import (
	"bytes"
	"encoding/json"
	"strings"
)

// field splits a line at its colon and takes one space off the value.
func field(line []byte) (string, string) {
	name, value, _ := strings.Cut(strings.TrimPrefix(string(line), byteOrderMark), ":")
	return name, strings.TrimPrefix(value, " ")
}

const byteOrderMark = "\xef\xbb\xbf"

// changeEvent returns one event as clients get it.
func changeEvent(s *scanner, event []byte) ([]byte, string) {
	if latinEndpoint(event) {
		return nil, latinOnly
	}
	if bytes.Contains(event, endpointWord) && saysEndpoint.Match(event) {
		if event = escaped(event); saysEndpoint.Match(event) {
			return rewrite(s, event, true)
		}
	}
	if s.grants == nil || len(event) < 3 {
		return event, ""
	}
	return rewrite(s, escaped(event), false)
}

// rewrite changes the data of one event: it becomes one line where the first one
// was, since clients differ in what they make of several.
func rewrite(s *scanner, event []byte, endpoint bool) ([]byte, string) {
	var before, after []byte
	var values []string
	lineEnd := ""
	for rest := event; len(rest) > 0; {
		size := bytes.IndexByte(rest, '\n') + 1
		if size == 0 {
			size = len(rest)
		}
		line := bytes.TrimRight(rest[:size], "\r\n")
		name, value := field(line)
		switch {
		case name == "data":
			if values == nil {
				lineEnd = string(rest[len(line):size])
			}
			values = append(values, value)
		case strings.EqualFold(strings.Trim(name, looseSpace), "data"):
			return nil, "its event has data for some clients only"
		case values == nil:
			before = append(before, rest[:size]...)
		default:
			after = append(after, rest[:size]...)
		}
		rest = rest[size:]
	}
	if values == nil {
		if endpoint {
			return nil, "its endpoint event has no data: some clients would take the next one's"
		}
		return event, ""
	}
	data := strings.Join(values, "\n")
	to, why := changedData(s, data, endpoint)
	if why == "" && !endpoint && len(values) > 1 { // clients read all of them, or the last one
		var line bytes.Buffer
		if json.Compact(&line, []byte(to)) != nil {
			return nil, "its event has several lines of data that are no JSON together"
		}
		to = line.String()
	}
	if why != "" || (to == data && !endpoint) {
		return event, why
	}
	return []byte(string(before) + "data: " + to + lineEnd + string(after)), ""
}

func changedData(s *scanner, data string, endpoint bool) (string, string) {
	if endpoint {
		to, why := publicEndpoint(s.mapping, data)
		if why != "" {
			why = "its endpoint event cannot be mapped: " + why
		}
		return to, why
	}
	list, why := filterAnswer([]byte(data), s.grants)
	return string(list), why
}
