package watch

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sallyport-dev/sallyport/internal/audit"
	"github.com/sallyport-dev/sallyport/internal/terminal"
	owneraudit "github.com/sallyport-dev/sallyport/owner/audit"
)

// maxRecords is how many records of each process the page holds.
const maxRecords = 1000

// A past record is one line of a process's audit, or why it cannot be read.
type past struct {
	process string
	record  audit.Record
	at      time.Time // its time, but no earlier than that of the record before: a clock may be set back
	err     error
}

// records reads the ends of the audits again whenever one of them has changed. It
// needs no server, so that the page also shows what one did before it went down.
func records(ctx context.Context) <-chan []past {
	out := make(chan []past)
	go func() {
		before := ""
		for ctx.Err() == nil {
			list, now := []past(nil), ""
			files, err := owneraudit.Files(nil)
			if err != nil {
				list = []past{{err: err, process: "audit"}}
			}
			for _, file := range files {
				now += stamp(os.Stat(file))
			}
			for i := 0; now != before && i < len(files); i++ {
				list = append(list, tail(files[i])...)
			}
			if now != before || before == "" {
				select {
				case out <- merged(list):
				case <-ctx.Done():
				}
			}
			before = now
			select {
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
		}
	}()
	return out
}

// stamp changes when a file does.
func stamp(info fs.FileInfo, err error) string {
	if err != nil {
		return err.Error() + ";"
	}
	return fmt.Sprint(info.Size(), info.ModTime(), ";")
}

// tail is the end of one audit. Its process is named by the folder.
func tail(file string) (list []past) {
	process := filepath.Base(filepath.Dir(file))
	found, err := audit.Tail(file, maxRecords)
	list = ordered(process, found)
	if err != nil {
		list = append(list, past{process: process, at: time.Now(), err: err})
	}
	return list
}

// ordered are the records of one process.
func ordered(process string, found []audit.Record) (list []past) {
	at := time.Time{}
	for _, r := range found {
		if r.Time.After(at) {
			at = r.Time
		}
		list = append(list, past{process: process, record: r, at: at})
	}
	return list
}

// merged are those of all processes, the newest last.
func merged(list []past) []past {
	slices.SortStableFunc(list, func(a, b past) int { return a.at.Compare(b.at) })
	return list
}

// line is one record for a page that may be 80 columns wide.
func (p past) line(width int) string {
	if p.err != nil {
		return terminal.Line(fmt.Sprintf("%s: the record cannot be read: %v", p.process, p.err), 4*width)
	}
	r := p.record
	what, tool := owneraudit.Words(r)
	text := fmt.Sprintf("%s %-8s %6d %-9s %-14s %s", r.Time.Local().Format("15:04:05"), p.process, r.Seq, what,
		fit(terminal.Line(r.Principal, 60), 20), tool)
	if r.Kind == audit.KindEnd {
		text += fmt.Sprintf(" %d ms", r.MS)
	}
	return terminal.Line(text+owneraudit.Details(r), 4*width)
}

// past are the newest records, as many as fit; m.back of them are scrolled over.
func (m *model) past(height int) (lines []string) {
	height = max(1, height)
	m.back = max(0, min(m.back, len(m.records)-height))
	end := len(m.records) - m.back
	for _, p := range m.records[max(0, end-height):end] {
		lines = append(lines, p.line(m.width))
	}
	return lines
}
