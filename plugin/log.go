package plugin

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"expvar"
	"io"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// levels are the values of logLevel.
var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn,
	"error": slog.LevelError}

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

// Lines of what was allowed are written together: a reader behind a pipe is woken
// at most every 50 ms. Refusals are written at once, with all that waits.
const linesEvery = 50 * time.Millisecond

var (
	linesMu    sync.Mutex
	waiting    = bufio.NewWriterSize(os.Stdout, 64<<10)
	due        bool // flushLater will run
	flushTimer = time.AfterFunc(time.Hour, flushLater)
)

// flushLater runs on a goroutine of the timer, where a panic would end Traefik.
func flushLater() {
	defer func() { _ = recover() }()
	flushLines()
}

func flushLines() {
	linesMu.Lock()
	due = false
	_ = waiting.Flush()
	linesMu.Unlock()
}

// logger writes lines of JSON about one middleware, each with one call.
func logger(to io.Writer, name string, level slog.Level) *slog.Logger {
	return slog.New(slog.NewJSONHandler(to, &slog.HandlerOptions{Level: level})).With("middleware", name)
}

// A request's id is the number of the request, behind 64 random bits that tell this
// run of Traefik from others.
var (
	thisRun  = newRun()
	requests int64
)

func newRun() string {
	random := make([]byte, 8)
	_, _ = rand.Read(random)
	return hex.EncodeToString(random) + "-"
}

// audit writes the line of one decision. It has neither a token nor an argument.
func (c *call) audit() {
	ms := float64(time.Since(c.start).Microseconds()) / 1000
	m := c.message
	linesMu.Lock()
	if m.fast && c.verdict == allowed && c.who.calls != nil {
		c.who.calls.Info("audit", "tool", m.tool, "request", c.id, "status", c.status, "ms", ms)
	} else {
		auditOther(c, ms)
	}
	if c.verdict != allowed {
		_ = waiting.Flush()
	} else if !due {
		due = true
		flushTimer.Reset(linesEvery)
	}
	linesMu.Unlock()
}

// auditOther bounds what a client can write into the log. Status is absent where
// the backend's answer passed unwrapped: Traefik's access log has it.
func auditOther(c *call, ms float64) {
	line := []interface{}{"verdict", c.verdict, "http", shown(c.method), "request", c.id, "ms", ms}
	if c.who != nil {
		line = append(line, "principal", c.who.id)
	}
	if c.message.method != "" {
		line = append(line, "method", shown(c.message.method))
	}
	if c.message.tool != "" {
		line = append(line, "tool", shown(c.message.tool))
	}
	if c.status != 0 {
		line = append(line, "status", c.status)
	}
	if c.verdict != allowed {
		line = append(line, "client", c.r.RemoteAddr)
	}
	c.e.audit.Info("audit", line...)
}

// hidden are letters that are written from right to left, fillers and selectors of variants.
var hidden = regexp.MustCompile("[\u034f\u0590-\u08ff\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufb1d-\ufdff" +
	"\ufe00-\ufe0f\ufe70-\ufeff\uffa0\U00010800-\U00010fff\U0001e800-\U0001efff\U000e0000-\U000e0fff]")

// shown is short text of a client's that drives no terminal on which the log is read, and
// hides nothing there: slog leaves U+009B, which some obey, and U+202E as they are.
func shown(s string) string {
	s = short(s)
	if hidden.MatchString(s) || len(strconv.Quote(s)) > len(s)+2 {
		return strconv.QuoteToASCII(s)
	}
	return s
}

func short(s string) string {
	if len(s) > 128 {
		return s[:128] + "…"
	}
	return s
}
