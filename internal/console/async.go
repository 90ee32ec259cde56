package console

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	maxPending = 1 << 20         // bytes that are kept for a reader who does not read
	maxBehind  = 32 << 10        // bytes of them with which it is worth drawing
	lastWait   = 2 * time.Second // that Close waits for the reader
)

// An AsyncWriter hands text on to a writer that may take its time, such as a terminal that
// is held with Ctrl-S: whoever writes to it never waits for it. What does not
// fit is left out, and a line says so. It may be used from several goroutines.
type AsyncWriter struct {
	w    io.Writer
	more chan struct{} // there is text, or the end
	over chan struct{}

	mu    sync.Mutex // guards what follows
	text  []byte     // that is not written yet
	lost  int        // lines left out since
	ended bool
}

func NewAsyncWriter(w io.Writer) *AsyncWriter {
	r := &AsyncWriter{w: w, more: make(chan struct{}, 1), over: make(chan struct{})}
	go r.loop()
	return r
}

// Write takes whole lines.
func (r *AsyncWriter) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.ended:
		return r.w.Write(p)
	case len(r.text)+len(p) > maxPending:
		r.lost += max(1, bytes.Count(p, []byte("\n")))
	default:
		r.text = append(r.text, p...)
		r.wake()
	}
	return len(p), nil
}

func (r *AsyncWriter) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// Behind reports whether the reader is far behind.
func (r *AsyncWriter) Behind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.text) > maxBehind
}

func (r *AsyncWriter) loop() {
	defer close(r.over)
	for range r.more {
		text, ended := r.take()
		// A reader that is gone does not stop what runs here.
		_, _ = r.w.Write(text)
		if ended {
			return
		}
	}
}

func (r *AsyncWriter) take() (text []byte, ended bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text, r.text = r.text, nil
	if r.lost > 0 {
		text = fmt.Appendf(text, "%d lines were left out: nobody read them\n", r.lost)
		r.lost = 0
	}
	return text, r.ended
}

// Close waits for what was written, but not for long. What comes after it goes
// straight through.
func (r *AsyncWriter) Close() {
	r.mu.Lock()
	r.ended = true
	r.wake()
	r.mu.Unlock()
	select {
	case <-r.over:
	case <-time.After(lastWait):
	}
}
