package output_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/sallyport-dev/sallyport/sandboxd/output"
)

// filled is a Buffer that was written to in pieces of step bytes.
func filled(limit, step int, data []byte) *output.Buffer {
	b := output.New(limit)
	for len(data) > 0 {
		n := min(step, len(data))
		b.Write(data[:n])
		data = data[n:]
	}
	return b
}

// bounded checks what holds for any text that a Buffer gives out.
func bounded(t *testing.T, text string, limit int) {
	t.Helper()
	if !utf8.ValidString(text) || len(text) > limit {
		t.Errorf("%d bytes, valid %t, limit %d", len(text), utf8.ValidString(text), limit)
	}
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false) // as results are sent
	err := e.Encode(text)
	if n := encoded.Len() - len("\"\"\n"); err != nil || n > 2*limit {
		t.Errorf("%d bytes of JSON, limit %d, %v", n, 2*limit, err)
	}
}

func TestText(t *testing.T) {
	for _, c := range []struct {
		name, in  string
		truncated bool
		want      string // whole, if not truncated
	}{
		{"empty", "", false, ""},
		{"short", "héllo\n", false, "héllo\n"},
		{"exactly the limit", strings.Repeat("a", 256), false, strings.Repeat("a", 256)},
		{"one more", strings.Repeat("a", 257), true, ""},
		{"newlines cost two", strings.Repeat("\n", 256), false, strings.Repeat("\n", 256)},
		{"controls cost six", strings.Repeat("\x00", 256), true, ""},
		{"invalid", "a\xffb\xe2\x82", false, "a\uFFFDb\uFFFD\uFFFD"},
		{"invalid grows", strings.Repeat("\xff", 100), true, ""},
		{"wide runes", strings.Repeat("€", 85), false, strings.Repeat("€", 85)},
		{"rune on the seam", strings.Repeat("a", 127) + "€" + strings.Repeat("b", 100), false, strings.Repeat("a", 127) + "€" + strings.Repeat("b", 100)},
	} {
		for step := 1; step < 300; step += 37 {
			text, truncated := filled(256, step, []byte(c.in)).Text()
			bounded(t, text, 256)
			if truncated != c.truncated || !truncated && text != c.want {
				t.Errorf("%s in steps of %d: %t %q", c.name, step, truncated, text)
			}
		}
	}
}

// The number in the gap's mark and what stands around it make up the stream.
func TestTruncatedTextAddsUp(t *testing.T) {
	for _, unit := range []string{"a", "€", "\n", "\x01", "<", "é\n"} {
		for _, total := range []int{257, 300, 511, 512, 513, 5000} {
			in := strings.Repeat(unit, total)
			if len(in) < 300 && unit != "\x01" && unit != "<" {
				continue // fits
			}
			for _, step := range []int{1, 3, 100, 10_000} {
				text, _ := filled(256, step, []byte(in)).Text()
				head, rest, found := strings.Cut(text, "\n[… ")
				var left int
				if _, err := fmt.Sscanf(rest, "%d bytes left out …]\n", &left); err != nil || !found {
					t.Fatalf("%q ×%d: no mark in %q", unit, total, text)
				}
				_, tail, _ := strings.Cut(rest, "…]\n")
				if !strings.HasPrefix(in, head) || !strings.HasSuffix(in, tail) || len(head)+left+len(tail) != len(in) || head == "" || tail == "" {
					t.Errorf("%q ×%d in steps of %d: %d + %d + %d of %d", unit, total, step, len(head), left, len(tail), len(in))
				}
			}
		}
	}
}

// Pages put together are what is kept, however they are cut.
func TestPages(t *testing.T) {
	in := []byte(strings.Repeat("zażółć gęślą jaźń €\n", 40))
	for _, limit := range []int{256, 300, 2000} {
		b := filled(limit, 7, in)
		for _, size := range []int{4, 5, 64, 5000} {
			var got strings.Builder
			at, lost := int64(0), int64(0)
			for at < int64(len(in)) {
				text, next, skipped := b.Page(at, size, true)
				bounded(t, text, size)
				if next <= at {
					t.Fatalf("limit %d, page %d: stuck at %d", limit, size, at)
				}
				got.WriteString(text)
				at, lost = next, lost+skipped
			}
			whole := strings.ToValidUTF8(got.String(), "")
			if limit == 2000 && (whole != string(in) || lost != 0) {
				t.Errorf("page %d: %d of %d bytes, %d lost", size, len(whole), len(in), lost)
			}
			if limit < 2000 && lost != int64(len(in)-limit/2*2) {
				t.Errorf("limit %d, page %d: %d lost", limit, size, lost)
			}
			if text, next, _ := b.Page(at, size, true); text != "" || next != at {
				t.Errorf("behind the end: %q, %d", text, next)
			}
		}
	}
}

func TestPageLeavesIncompleteRunes(t *testing.T) {
	b := output.New(256)
	b.Write([]byte("a€"[:3]))
	text, next, _ := b.Page(0, 100, false)
	if text != "a" || next != 1 {
		t.Errorf("%q, %d", text, next)
	}
	if text, _, _ := b.Page(next, 100, true); text != "\uFFFD\uFFFD" {
		t.Errorf("at the end: %q", text)
	}
	b.Write([]byte("€"[2:]))
	if text, next, _ = b.Page(next, 100, false); text != "€" || next != 4 {
		t.Errorf("completed: %q, %d", text, next)
	}
}

func TestConcurrentUse(t *testing.T) {
	b := output.New(1024)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 1000 {
				b.Write([]byte("some text €\n"))
			}
		})
	}
	for range 100 {
		text, _ := b.Text()
		bounded(t, text, 1024)
		b.Page(rand.Int64N(2000), 100, false)
	}
	group.Wait()
	if b.Size() != 4*1000*int64(len("some text €\n")) {
		t.Errorf("%d bytes", b.Size())
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("héllo\xff<\x00\u2028"), uint16(256), uint16(3))
	f.Add([]byte(strings.Repeat("€\x01", 400)), uint16(300), uint16(1000))
	f.Fuzz(func(t *testing.T, data []byte, limit, step uint16) {
		l := max(256, int(limit))
		b := filled(l, max(1, int(step)), data)
		text, truncated := b.Text()
		bounded(t, text, l)
		if !truncated && text != expanded(data) {
			t.Errorf("not truncated, yet %q became %q", data, text)
		}
		var at int64
		for at < int64(len(data)) {
			page, next, _ := b.Page(at, l/4, true)
			bounded(t, page, l/4)
			if next <= at || next > int64(len(data)) {
				t.Fatalf("page from %d continues at %d of %d", at, next, len(data))
			}
			at = next
		}
	})
}

// expanded is what encoding/json does to bytes that are not UTF-8: each becomes
// U+FFFD.
func expanded(data []byte) string {
	var b strings.Builder
	for _, r := range string(data) {
		b.WriteRune(r)
	}
	return b.String()
}
