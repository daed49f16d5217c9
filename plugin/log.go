package plugin

import (
	"encoding/json"
	"expvar"
	"io"
	"os"
	"time"
)

// levels are the values of logLevel, in the order of their weight.
var levels = []string{"debug", "info", "warn", "error"}

// out is where log and audit lines go. Traefik would show what a plugin prints
// by other ways at its own levels, without a label, or not at all.
var out io.Writer = os.Stdout

// counters are shown as "sallyport" in /debug/vars where Traefik's API is in
// debug mode: one number per verdict. The catalog may load two versions of the
// plugin into one process, so an existing map is used again.
var counters = sharedCounters()

func sharedCounters() *expvar.Map {
	if m, ok := expvar.Get("sallyport").(*expvar.Map); ok {
		return m
	}
	return expvar.NewMap("sallyport")
}

func levelOf(name string) int {
	for i := range levels {
		if levels[i] == name {
			return i
		}
	}
	return 1
}

// entry is a line about the middleware itself, or the audit of one decision. It
// has neither a token nor an argument. Status is absent where the backend's
// answer passed unwrapped: Traefik's access log has it.
type entry struct {
	Time       string  `json:"time"`
	Middleware string  `json:"middleware"`
	Level      string  `json:"level,omitempty"`
	Message    string  `json:"msg,omitempty"`
	Verdict    string  `json:"verdict,omitempty"` // in audit lines only
	Principal  string  `json:"principal,omitempty"`
	HTTP       string  `json:"http,omitempty"`
	Method     string  `json:"method,omitempty"` // of JSON-RPC
	Tool       string  `json:"tool,omitempty"`
	Status     int     `json:"status,omitempty"`
	Millis     float64 `json:"ms,omitempty"`
	Client     string  `json:"client,omitempty"` // of refusals
}

func logLine(e *edge, level, message string) {
	if levelOf(level) >= e.level {
		writeLine(entry{Time: time.Now().UTC().Format(time.RFC3339), Middleware: e.name, Level: level, Message: message})
	}
}

func auditLine(c *call) {
	a := entry{Time: c.start.UTC().Format(time.RFC3339Nano), Middleware: c.e.name, Verdict: c.verdict, HTTP: short(c.method),
		Method: short(c.message.method), Tool: short(c.message.tool), Status: c.status,
		Millis: float64(time.Since(c.start).Microseconds()) / 1000}
	if c.who != nil {
		a.Principal = c.who.id
	}
	if c.verdict != allowed {
		a.Client = c.r.RemoteAddr
	}
	writeLine(a)
}

// short bounds what a client can write into the log.
func short(s string) string {
	if len(s) > 128 {
		return s[:128] + "…"
	}
	return s
}

// writeLine writes with one call, so that lines do not mix.
func writeLine(e entry) {
	if line, err := json.Marshal(e); err == nil {
		_, _ = out.Write(append(line, '\n'))
	}
}
