package journal

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// maxLines is how many lines may wait to be written, before those that are replaced by later ones
// are left out.
const maxLines = 1000

// Lines writes JSON lines to a reader or a disk that may be slow. Put never waits for it, since the
// agents of a run end it when its controller falls silent. After an error of the writer nothing
// more is written.
type Lines struct {
	w    io.Writer
	more chan struct{} // has a token if something waits, or no more comes
	over chan struct{}

	mu      sync.Mutex // guards the fields below
	waiting [][]byte
	left    int   // lines left out since the last one that says so
	err     error // the first of the writer
	ended   bool
}

// NewLines returns lines that are written to w, by a goroutine that ends with Close.
func NewLines(w io.Writer) *Lines {
	l := &Lines{w: w, more: make(chan struct{}, 1), over: make(chan struct{})}
	go l.loop()
	return l
}

// Put adds a line. One that may be left out is if too many wait.
func (l *Lines) Put(v any, mayBeLeftOut bool) {
	b, err := json.Marshal(v)
	l.add(append(b, '\n'), err, mayBeLeftOut)
}

// add adds a line with its line feed, or the error of making it.
func (l *Lines) add(line []byte, err error, mayBeLeftOut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.fail(err)
	case mayBeLeftOut && len(l.waiting) >= maxLines:
		l.left++
	default:
		l.waiting = append(l.waiting, line)
		l.wake()
	}
}

func (l *Lines) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *Lines) wake() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *Lines) loop() {
	defer close(l.over)
	for range l.more {
		lines, ended := l.take()
		for _, line := range lines {
			l.do(func() error { _, err := l.w.Write(line); return err })
		}
		if w, is := l.w.(flusher); is {
			l.do(w.Flush)
		}
		if ended {
			return
		}
	}
}

// A flusher is a writer that writes many lines at once.
type flusher interface{ Flush() error }

// do writes, unless the writer has failed.
func (l *Lines) do(write func() error) {
	l.mu.Lock()
	failed := l.err != nil
	l.mu.Unlock()
	if failed {
		return
	}
	if err := write(); err != nil {
		l.mu.Lock()
		l.fail(err)
		l.mu.Unlock()
	}
}

func (l *Lines) take() ([][]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.waiting
	l.waiting = nil
	if l.left > 0 {
		lines, l.left = append(lines, leftOutLine(l.left)), 0
	}
	return lines, l.ended
}

// leftOutLine says that n lines were left out.
func leftOutLine(n int) []byte {
	b, _ := json.Marshal(leftOut{typeLeftOut, time.Now(), n}) // it has no value that JSON lacks
	return append(b, '\n')
}

// Close waits until all lines are written, and returns the first error. Nothing is put after it.
func (l *Lines) Close() error {
	l.mu.Lock()
	l.ended = true
	l.wake()
	l.mu.Unlock()
	<-l.over
	return l.err
}
