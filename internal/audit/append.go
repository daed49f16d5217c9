package audit

import (
	"errors"
	"fmt"
	"syscall"
	"time"
)

// ErrUnwritable means that a call cannot be recorded and so must not run.
var ErrUnwritable = errors.New("this call cannot be recorded in the audit file, so it was not run; the owner has to " +
	"look after that file (is its disk full?)")

// A Pending is a call whose begin is written and whose end is not.
type Pending struct {
	log    *Log
	begin  Record
	start  time.Time
	settle bool // under log.mu: the end is written or waits to be
}

// Begin records that c is about to run. With an error, which is ErrUnwritable
// and the cause, the caller must not run it.
func (l *Log) Begin(c Call) (*Pending, error) {
	if l == nil {
		return nil, nil
	}
	r := l.record(KindBegin, c)
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.flush()
	if err == nil {
		err = l.reserve(l.open + 1)
	}
	r.Seq = l.seq + 1 // append may also rotate, and write more than this record
	if err == nil {
		err = l.append(r)
	}
	if err != nil {
		l.opts.Log.Error("the audit file cannot be written, so no call runs", "file", l.opts.File, "error", err)
		return nil, fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	l.open++
	return &Pending{log: l, begin: r, start: l.opts.Now()}, nil
}

// Seq is the sequence number of the begin; 0 where nothing is recorded.
func (p *Pending) Seq() uint64 {
	if p == nil {
		return 0
	}
	return p.begin.Seq
}

// End records what came of the call. Only the first one counts. An end that
// cannot be written now is kept and written as soon as it can be; until then
// no other call begins.
func (p *Pending) End(o Outcome) {
	if p == nil {
		return
	}
	l := p.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.settle {
		return
	}
	p.settle = true
	l.open--
	r := Record{
		Kind: KindEnd, Begin: p.begin.Seq, Time: l.opts.Now().UTC(), Request: p.begin.Request,
		Principal: p.begin.Principal,
		Session:   p.begin.Session, Server: p.begin.Server, Tool: p.begin.Tool,
		Verdict: clip(o.Verdict), MS: l.opts.Now().Sub(p.start).Milliseconds(), ResultBytes: o.ResultBytes,
		Details: clipAll(o.Details),
	}
	if l.flush() == nil && l.append(r) == nil {
		return
	}
	l.late = append(l.late, r)
	l.opts.Log.Error("the end of a call waits for room in the audit file; no other call runs until then", "file",
		l.opts.File)
}

// Refused records a call that was not admitted. It is best effort: nothing
// runs that would need the record.
func (l *Log) Refused(c Call, verdict string) {
	if l == nil {
		return
	}
	r := l.record(KindRefused, c)
	r.Verdict = clip(verdict)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(r); err != nil {
		l.opts.Log.Error("a refusal could not be recorded", "file", l.opts.File, "error", err)
	}
}

// Event records something else: what the owner decided or stopped, a
// connection. Its name is in snake_case. With sign, a checkpoint follows soon.
func (l *Log) Event(name string, c Call, details map[string]string, sign bool) error {
	if l == nil {
		return nil
	}
	r := l.record(KindEvent, c)
	r.Event, r.Details = clip(name), clipAll(details)
	r = l.mask.record(r)
	if len(c.Arguments) == 0 {
		r.ArgumentsHMAC, r.Arguments = "", nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.append(r)
	if sign {
		l.kick()
	}
	return err
}

// flush writes the ends that are late.
func (l *Log) flush() error {
	for len(l.late) > 0 {
		if err := l.append(l.late[0]); err != nil {
			return err
		}
		l.late = l.late[1:]
	}
	return nil
}

// maxEnd is more than an end can have: six names of 256 bytes, six times as
// long where JSON has to escape them.
const maxEnd = 6*6*maxName + 1024

// reserve asks the file system for room for a begin and this many ends, so
// that a call that has begun can also end. File systems without such a promise
// are believed as they are.
func (l *Log) reserve(ends int) error {
	need := l.size + maxLine + int64(ends)*maxEnd
	if l.file == nil || l.reserved >= need {
		return nil
	}
	const keepSize = 1 // FALLOC_FL_KEEP_SIZE, fallocate(2)
	for _, more := range []int64{maxLine, 0} {
		err := syscall.Fallocate(int(l.file.Fd()), keepSize, l.size, need+more-l.size)
		switch {
		case err == nil:
			l.reserved = need + more
			return nil
		case errors.Is(err, syscall.EOPNOTSUPP), errors.Is(err, syscall.ENOSYS):
			return nil
		case !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) && !errors.Is(err, syscall.EINTR):
			return err
		}
	}
	return fmt.Errorf("no room for %d KiB more: %w", (need-l.size)>>10, syscall.ENOSPC)
}

// append writes r as the next line. A line that was written in part is taken
// back, so that the next one does not hang on it. The caller holds mu.
func (l *Log) append(r Record) error {
	r.Seq, r.Prev = l.seq+1, l.head.String()
	if r.Time.IsZero() {
		r.Time = l.opts.Now().UTC()
	}
	line, sum, err := encode(r)
	if err != nil {
		return err
	}
	if l.file == nil {
		_, err = l.opts.Stdout.Write(line)
	} else if _, err = l.file.Write(line); err != nil {
		if cut := l.file.Truncate(l.size); cut != nil {
			err = errors.Join(err, cut)
		}
		l.reserved = l.size
	}
	if err != nil {
		return err
	}
	l.seq, l.head = r.Seq, sum
	l.size += int64(len(line))
	if l.file != nil && l.size >= l.opts.RotateBytes && r.Kind != KindPrune {
		l.rotate()
	}
	if l.seq-l.signed >= signEvery {
		l.kick()
	}
	return nil
}
