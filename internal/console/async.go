package console

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	maxPending = 1 << 20         // bytes kept for a reader that does not read
	maxBehind  = 32 << 10        // pending bytes above which the reader counts as behind
	lastWait   = 2 * time.Second // how long Close waits for the reader
)

// An AsyncWriter passes text to a writer that may block, such as a terminal held with Ctrl-S.
// Its callers never wait for that writer. Text that does not fit is dropped, and a line says
// so. It is safe for concurrent use.
type AsyncWriter struct {
	w    io.Writer
	more chan struct{} // there is text, or the writer was closed
	over chan struct{}

	mu    sync.Mutex // guards the fields below
	text  []byte     // not written yet
	lost  int        // lines dropped since the last report
	ended bool
}

func NewAsyncWriter(w io.Writer) *AsyncWriter {
	r := &AsyncWriter{w: w, more: make(chan struct{}, 1), over: make(chan struct{})}
	go r.loop()
	return r
}

// Write takes whole lines and never blocks.
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
		// A reader that is gone does not stop the work of this process.
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

// Close waits a short time for the pending text. Later text goes straight to the writer.
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
