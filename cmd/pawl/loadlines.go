package main

import (
	"encoding/json"
	"io"
	"sync"
	"time"
)

// maxLoadLines is how many lines may wait for a reader of stdout, before those that are replaced by
// later ones are left out.
const maxLoadLines = 1000

// loadLines writes JSON lines to a reader that may be slow. Writers never wait for it, since the
// agents of a run end it when its controller falls silent.
type loadLines struct {
	w    io.Writer
	more chan struct{} // has a token if something waits, or no more comes
	over chan struct{}

	mu      sync.Mutex // guards the fields below
	waiting [][]byte
	left    int   // lines left out since the last one that says so
	err     error // the first of the writer
	ended   bool
}

func newLoadLines(w io.Writer) *loadLines {
	l := &loadLines{w: w, more: make(chan struct{}, 1), over: make(chan struct{})}
	go l.loop()
	return l
}

// put adds a line. One that may be left out is if too many wait.
func (l *loadLines) put(v any, mayBeLeftOut bool) {
	b, err := json.Marshal(v)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.fail(err)
	case mayBeLeftOut && len(l.waiting) >= maxLoadLines:
		l.left++
	default:
		l.waiting = append(l.waiting, append(b, '\n'))
		l.wake()
	}
}

func (l *loadLines) fail(err error) {
	if l.err == nil {
		l.err = err
	}
}

func (l *loadLines) wake() {
	select {
	case l.more <- struct{}{}:
	default:
	}
}

func (l *loadLines) loop() {
	defer close(l.over)
	for range l.more {
		lines, ended := l.take()
		for _, line := range lines {
			if _, err := l.w.Write(line); err != nil {
				l.mu.Lock()
				l.fail(err)
				l.mu.Unlock()
			}
		}
		if ended {
			return
		}
	}
}

func (l *loadLines) take() ([][]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := l.waiting
	l.waiting = nil
	if l.left > 0 {
		b, _ := json.Marshal(loadLeft{"left_out", time.Now(), l.left}) // it has no value that JSON lacks
		lines, l.left = append(lines, append(b, '\n')), 0
	}
	return lines, l.ended
}

// close waits until all lines are written, and returns the first error.
func (l *loadLines) close() error {
	l.mu.Lock()
	l.ended = true
	l.wake()
	l.mu.Unlock()
	<-l.over
	return l.err
}
