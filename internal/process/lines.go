package process

import "bytes"

// maxLine bounds a line that is handed on.
const maxLine = 64 << 10

// cutMark ends a line that was cut.
const cutMark = " [cut]"

// Lines hands on what is written to it, line by line.
type Lines struct {
	f    func(line []byte)
	buf  []byte // of the line that is not finished
	long bool   // its rest is dropped
}

// NewLines answers a writer that calls f with each whole line, without its newline. f
// may keep the line only until it returns. Of a line of more than 64 KiB it gets the
// beginning, with a mark, as soon as there is so much.
func NewLines(f func(line []byte)) *Lines { return &Lines{f: f} }

// Write answers the length of p, and no error.
func (l *Lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		l.add(line, whole)
	}
	return len(p), nil
}

// add takes a piece of a line, the last one if whole.
func (l *Lines) add(piece []byte, whole bool) {
	if whole && !l.long && len(l.buf) == 0 && len(piece) <= maxLine {
		l.f(piece)
		return
	}
	if !l.long {
		room := maxLine - len(l.buf)
		l.long = len(piece) > room
		l.buf = append(l.buf, piece[:min(room, len(piece))]...)
		if l.long {
			l.f(append(l.buf, cutMark...))
			l.buf = l.buf[:0]
		} else if whole {
			l.finish()
		}
	}
	if whole {
		l.long = false
	}
}

func (l *Lines) finish() {
	line := l.buf
	l.buf = l.buf[:0]
	l.f(line)
}

// Close hands on the last line if no newline has ended it.
func (l *Lines) Close() error {
	if len(l.buf) > 0 {
		l.finish()
	}
	l.long = false
	return nil
}
