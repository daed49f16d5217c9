package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/sallyport-dev/sallyport/internal/terminal"
)

// Verdict is what doctor says of a boundary.
type Verdict string

// The verdicts. Only Fail sets the exit code.
const (
	OK   Verdict = "ok"
	Warn Verdict = "warn"
	Fail Verdict = "fail"
)

// Line is one boundary.
type Line struct {
	Boundary string  `json:"boundary"`
	Verdict  Verdict `json:"verdict"`
	Proof    string  `json:"proof"`             // what was seen: status, header, time
	Finding  string  `json:"finding,omitempty"` // a key of Findings where it is not ok
	Cause    string  `json:"cause,omitempty"`
	Fix      string  `json:"fix,omitempty"`
}

func (l Line) text() string {
	s := fmt.Sprintf("%-4s  %-11s %s\n", l.Verdict, l.Boundary, l.Proof)
	if l.Verdict != OK {
		s += fmt.Sprintf("                  [%s] %s\n                  fix: %s\n", l.Finding, l.Cause, l.Fix)
	}
	return s
}

func (w *walk) ok(boundary, format string, args ...any) {
	w.add(Line{Boundary: boundary, Verdict: OK, Proof: fmt.Sprintf(format, args...)})
}

// found reports one of Findings. The proof is fitted into the line, so that
// nothing that a foreign server says can start a line of its own.
func (w *walk) found(boundary, name, format string, args ...any) {
	f := Findings[name]
	w.add(Line{Boundary: boundary, Verdict: f.Verdict, Proof: fmt.Sprintf(format, args...), Finding: name,
		Cause: f.Cause, Fix: f.Fix})
}

func (w *walk) add(l Line) {
	if w.token != "" { // before the cut, which could leave a part of it
		l.Proof = strings.ReplaceAll(l.Proof, w.token, "(token)")
	}
	l.Proof = terminal.Line(l.Proof, 300)
	w.lines = append(w.lines, l)
	if w.say != nil {
		w.say(l)
	}
}

// unseen notes a boundary that cannot be looked at from here.
func (w *walk) unseen(boundary, why string) {
	w.skipped = append(w.skipped, boundary+": "+why)
}

func (w *walk) count(v Verdict) (n int) {
	for _, l := range w.lines {
		if l.Verdict == v {
			n++
		}
	}
	return n
}

func (w *walk) summary(out io.Writer) {
	if len(w.skipped) > 0 {
		fmt.Fprintln(out, "\nnot looked at:")
		for _, s := range w.skipped {
			fmt.Fprintln(out, "  "+s)
		}
	}
	fmt.Fprintf(out, "\n%d ok, %d warn, %d fail\n", w.count(OK), w.count(Warn), w.count(Fail))
}

func (w *walk) writeJSON(out io.Writer) {
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	e.Encode(struct {
		URL     string   `json:"url"`
		Lines   []Line   `json:"lines"`
		Skipped []string `json:"skipped"`
	}{w.base.String(), w.lines, append([]string{}, w.skipped...)})
}
