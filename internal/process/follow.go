package process

import (
	"context"
	"io"
	"os"
)

// removedNote stands for what Follow was too slow to read.
const removedNote = "[pawl: older output was removed before it was read here]\n"

// Follow writes the last n lines, all if n is negative, and then what is written,
// until ctx ends or the LogFile is closed. It answers the first error of w. If w is
// slower than what is printed, files are removed before it has them, and a line says so.
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
		wait, next, over := l.after(&f)
		switch {
		case next != nil:
			if err := f.turn(ctx, next); err != nil {
				return err
			}
		case over:
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

// after answers what comes after what f has read: a channel that is closed when there
// is more, the next file, or the end; or none, if there is more already.
func (l *LogFile) after(f *follower) (wait <-chan struct{}, next *part, over bool) {
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
		if at > l.size { // half a note was taken back
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

// next answers the oldest part that is newer than number, or nil.
func (l *LogFile) next(number int) *part {
	l.earlier()
	for i := len(l.aside); i > 0; i-- {
		if n := l.aside[i-1]; n != 0 && n > number {
			return &part{number: n, index: i}
		}
	}
	if l.file != nil && l.number > number {
		return &part{number: l.number}
	}
	return nil
}

// A follower is where somebody who follows a LogFile has come to.
type follower struct {
	log    *LogFile
	w      io.Writer
	file   *os.File // nil: none yet
	number int
}

// begin writes the last n lines.
func (f *follower) begin(ctx context.Context, n int) error {
	f.log.mu.Lock()
	if f.log.file == nil && !f.log.closed {
		f.log.trouble = f.log.open() // so that it has a number
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

// copy writes what there is to read.
func (f *follower) copy(ctx context.Context) error {
	if f.file == nil {
		return nil
	}
	_, err := io.Copy(f.w, bounded{ctx, f.file})
	return err
}

// turn goes on to the next file, after what was written to this one at last.
func (f *follower) turn(ctx context.Context, next *part) error {
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
