package console

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"
)

const (
	maxPending = 1 << 20         // bytes that a relay keeps for a reader who does not read
	maxBehind  = 32 << 10        // bytes of them with which it is worth drawing
	lastWait   = 2 * time.Second // that a relay which ends waits for the reader
)

// A Relay hands text on to a writer that may take its time, such as a terminal that
// is held with Ctrl-S: whoever writes to the relay never waits for it. What does not
// fit is left out, and a line says so. It may be used from several goroutines.
type Relay struct {
	w    io.Writer
	more chan struct{} // there is text, or the end
	over chan struct{}

	mu    sync.Mutex // guards what follows
	text  []byte     // that is not written yet
	lost  int        // lines left out since
	ended bool
}

func NewRelay(w io.Writer) *Relay {
	r := &Relay{w: w, more: make(chan struct{}, 1), over: make(chan struct{})}
	go r.loop()
	return r
}

// Write takes whole lines.
func (r *Relay) Write(p []byte) (int, error) {
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

func (r *Relay) wake() {
	select {
	case r.more <- struct{}{}:
	default:
	}
}

// Behind reports whether the reader is far behind.
func (r *Relay) Behind() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.text) > maxBehind
}

func (r *Relay) loop() {
	defer close(r.over)
	for range r.more {
		text, ended := r.take()
		// A reader who is gone takes nothing with him: what runs here goes on.
		_, _ = r.w.Write(text)
		if ended {
			return
		}
	}
}

func (r *Relay) take() (text []byte, ended bool) {
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
func (r *Relay) Close() {
	r.mu.Lock()
	r.ended = true
	r.wake()
	r.mu.Unlock()
	select {
	case <-r.over:
	case <-time.After(lastWait):
	}
}
