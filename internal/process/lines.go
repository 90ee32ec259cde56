package process

import "bytes"

// maxLine is the largest line that is passed on whole.
const maxLine = 64 << 10

// cutMark ends a line that was truncated.
const cutMark = " [cut]"

// A Lines passes on what is written to it, line by line. It is not safe for concurrent
// use.
type Lines struct {
	f    func(line []byte)
	buf  []byte // the beginning of an unfinished line
	long bool   // the rest of the line is dropped
}

// NewLines returns a writer that calls f with each whole line, without its newline. f must
// not keep the slice. Of a line of more than 64 KiB, f gets the first 64 KiB and a mark.
func NewLines(f func(line []byte)) *Lines { return &Lines{f: f} }

// Write implements io.Writer. It never fails.
func (l *Lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		l.add(line, whole)
	}
	return len(p), nil
}

// add adds a piece of a line, which ends it if whole.
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

// Close passes on a last line that has no newline.
func (l *Lines) Close() error {
	if len(l.buf) > 0 {
		l.finish()
	}
	l.long = false
	return nil
}
