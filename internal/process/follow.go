package process

import (
	"context"
	"io"
	"os"
)

// removedNote replaces output that was removed before Follow had read it.
const removedNote = "[pawl: older output was removed before it was read here]\n"

// Follow writes the last n lines (all if n is negative), and then what is written to the
// log, until ctx ends or the LogFile is closed. It returns the first error of w. If w is
// too slow, old files are removed before they are read, and a line says so.
func (l *LogFile) Follow(ctx context.Context, w io.Writer, n int) error {
	f := follower{log: l, w: w}
	defer func() { f.close() }()
	if err := f.begin(ctx, n); err != nil {
		return err
	}
	for {
		if err := f.copy(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		wait, next, done := l.nextStep(&f)
		switch {
		case next != nil:
			if err := f.advance(ctx, next); err != nil {
				return err
			}
		case done:
			return nil
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return nil
			}
		}
	}
}

// nextStep returns what a follower does next: wait on a channel that is closed when
// there is more, continue with the next file, or end (done). With none of these, there
// is more to read already.
func (l *LogFile) nextStep(f *follower) (wait <-chan struct{}, next *part, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := l.next(f.number); n != nil; n = l.next(n.number) {
		if n.file, _ = os.Open(l.name(n.index)); n.file != nil {
			return nil, n, false
		}
	}
	if f.number == l.number && same(f.file, l.file) {
		at := f.offset()
		if at < l.size {
			return nil, nil, false
		}
		if at > l.size { // an incomplete note was truncated
			_, _ = f.file.Seek(l.size, io.SeekStart)
		}
	}
	if l.closed {
		return nil, nil, true
	}
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed, nil, false
}

func same(a, b *os.File) bool {
	if a == nil || b == nil {
		return false
	}
	first, err := a.Stat()
	if err != nil {
		return false
	}
	second, err := b.Stat()
	return err == nil && os.SameFile(first, second)
}

// A part is one file of a log.
type part struct {
	number, index int
	file          *os.File
}

// next returns the oldest file that is newer than number, or nil.
func (l *LogFile) next(number int) *part {
	l.findRotated()
	for i := len(l.rotated); i > 0; i-- {
		if n := l.rotated[i-1]; n != 0 && n > number {
			return &part{number: n, index: i}
		}
	}
	if l.file != nil && l.number > number {
		return &part{number: l.number}
	}
	return nil
}

// A follower is the position of one call of Follow.
type follower struct {
	log    *LogFile
	w      io.Writer
	file   *os.File // nil: none open
	number int
}

// begin writes the last n lines.
func (f *follower) begin(ctx context.Context, n int) error {
	f.log.mu.Lock()
	if f.log.file == nil && !f.log.closed {
		f.log.err = f.log.open() // so that it has a number
	}
	parts := openParts(f.log.config.Path)
	f.number = f.log.number
	f.log.mu.Unlock()
	defer func() { closeParts(parts) }()
	if len(parts) == 0 {
		return nil
	}
	if err := seekTail(&parts, n); err != nil {
		return err
	}
	for len(parts) > 0 {
		last := len(parts) - 1
		f.close()
		f.file, parts = parts[last], parts[:last]
		if err := f.copy(ctx); err != nil {
			return err
		}
	}
	return nil
}

// copy writes what is left in the file.
func (f *follower) copy(ctx context.Context) error {
	if f.file == nil {
		return nil
	}
	_, err := io.Copy(f.w, contextReader{ctx, f.file})
	return err
}

// advance continues with the next file, after the end of this one.
func (f *follower) advance(ctx context.Context, next *part) error {
	if err := f.copy(ctx); err != nil {
		next.file.Close()
		return err
	}
	f.close()
	skipped := next.number > f.number+1
	f.file, f.number = next.file, next.number
	if !skipped {
		return nil
	}
	_, err := io.WriteString(f.w, removedNote)
	return err
}

func (f *follower) offset() int64 {
	at, err := f.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0
	}
	return at
}

func (f *follower) close() {
	if f.file != nil {
		f.file.Close()
		f.file = nil
	}
}
