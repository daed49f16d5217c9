// Package jsontest writes JSON-RPC requests with at most one flaw each, so that
// every strict reader, the plugin's own too, is held to the same inputs.
package jsontest

import (
	"fmt"
	"math/rand"
	"strings"
)

// A Flaw is what is wrong with a text.
type Flaw string

// The flaws. Below means: inside params, where the edge and the transports look.
const (
	None         Flaw = ""
	Syntax       Flaw = "cut off, or a comma too much"
	Trailing     Flaw = "something after the value"
	Encoding     Flaw = "invalid UTF-8"
	Duplicate    Flaw = "a key twice"
	Escaped      Flaw = "a key twice, once with an escape"
	Below        Flaw = "a key of params twice"
	Case         Flaw = "method in another case beside method"
	Surrogate    Flaw = "half of a surrogate pair in a value"
	SurrogateKey Flaw = "half of a surrogate pair in a key"
)

// Flaws are all of them.
var Flaws = []Flaw{None, Syntax, Trailing, Encoding, Duplicate, Escaped, Below, Case, Surrogate, SurrogateKey}

// A Text is one generated input.
type Text struct {
	Raw    string
	Flaw   Flaw
	Levels int // of nested arrays and objects
}

// New writes a text with the flaw and at least so many levels below params.
func New(r *rand.Rand, flaw Flaw, levels int) Text {
	value := func() string {
		return pick(r, "1", "-0.5e3", "true", "null", `""`, `"[{\"]}\\"`, `"é\u00e9\ud83d\ude00"`, "[]", `[ 1,{} ]`)
	}
	halves := []string{`\ud800`, `\udc00`, `\udfffx`, `\ud83d\u0041`, `\ude00\ud83d`, `\uD800\n`}
	params := []string{`"name":` + value(), `"arguments":{"a":` + nested(levels) + `,"b":` + value() + `}`}
	top := []string{`"jsonrpc":"2.0"`, `"id":7`, `"method":"tools/call"`, `"more":` + value()}
	switch flaw {
	case Encoding:
		top = append(top, `"x":"`+pick(r, "\xff", "\xc0\xaf", "\xed\xa0\x80", "caf\xe9")+`"`)
	case Duplicate:
		top = append(top, pick(r, top...))
	case Escaped:
		top = append(top, pick(r, `"m\u0065thod":"x"`, `"\u0069d":8`, `"\u006dore":1`))
	case Below:
		params = append(params, pick(r, params...))
	case Case:
		top = append(top, pick(r, `"Method":"x"`, `"METHOD":"x"`, `"ID":8`, `"re\u017fult":1`))
	case Surrogate:
		params = append(params, `"x":"`+pick(r, halves...)+`"`)
	case SurrogateKey:
		params = append(params, `"`+pick(r, halves...)+`":1`)
	}
	raw := object(r, append(top, `"params":`+object(r, params)))
	switch flaw {
	case Syntax:
		raw = pick(r, raw[:r.Intn(len(raw)-1)+1], raw[:len(raw)-1]+",}", "{,"+raw[1:], strings.Replace(raw, ":", "", 1))
	case Trailing:
		raw += pick(r, "{}", " x", ",", "]", "\n1", "\x00")
	}
	return Text{raw, flaw, levels + 3}
}

// nested are arrays and objects, one in another.
func nested(levels int) string {
	half := levels / 2
	return strings.Repeat(`[{"k":`, half) + []string{"0", "[]"}[levels%2] + strings.Repeat("}]", half)
}

// object writes members in any order, with white space here and there.
func object(r *rand.Rand, members []string) string {
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	space := pick(r, "", "", " ", "\r\n\t")
	return fmt.Sprintf("{%s%s%s}", space, strings.Join(members, space+","+space), space)
}

func pick(r *rand.Rand, of ...string) string { return of[r.Intn(len(of))] }
