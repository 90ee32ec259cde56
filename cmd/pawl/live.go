package main

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A follower shows a job as it goes. What since is given is known already: it
// comes before the first show, if at all. Close comes last.
type follower interface {
	since(v *pawl.JobView)
	show(v *pawl.JobView)
	close()
}

// silent shows nothing.
type silent struct{}

func (silent) since(*pawl.JobView) {}
func (silent) show(*pawl.JobView)  {}
func (silent) close()              {}

// live draws what changes in place, again and again: a job as a tree, or services as
// a table.
type live struct {
	w      io.Writer
	screen screen
	frame  frame         // of each drawing, but for the terminal and the moment
	every  time.Duration // from one drawing to the next

	stop chan struct{}
	over chan struct{}

	mu      sync.Mutex           // guards what follows
	picture func(frame) []string // nil: there is nothing to draw; nil lines: not now
	drawn   int                  // lines on the terminal that the next drawing replaces
	spin    int
}

func newLive(w io.Writer, s screen, f frame) *live { return startLive(w, s, f, 100*time.Millisecond) }

func startLive(w io.Writer, s screen, f frame, every time.Duration) *live {
	l := &live{w: w, screen: s, frame: f, every: every, stop: make(chan struct{}), over: make(chan struct{})}
	go l.loop()
	return l
}

func (l *live) loop() {
	defer close(l.over)
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.mu.Lock()
			l.spin++
			l.draw()
			l.mu.Unlock()
		case <-l.stop:
			return
		}
	}
}

func (l *live) since(*pawl.JobView) {}

func (l *live) show(v *pawl.JobView) {
	l.paint(func(f frame) []string {
		if lifecycle.Job.Ended(v.Status) {
			f.height = 0 // the last drawing may scroll
		}
		return drawTree(v, f)
	})
}

// paint draws another picture from now on.
func (l *live) paint(picture func(frame) []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.picture = picture
	l.draw()
}

// close draws for the last time and leaves the cursor below.
func (l *live) close() {
	close(l.stop)
	<-l.over
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draw()
}

// above writes text where the drawing stood, and draws again below it.
func (l *live) above(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.drawn > 0 {
		text = append(fmt.Appendf(nil, "\x1b[%dA\r\x1b[J", l.drawn), text...)
		l.drawn = 0
	}
	n, err := l.w.Write(text)
	l.draw()
	return n, err
}

// draw replaces the last drawing, in one write.
func (l *live) draw() {
	if l.picture == nil {
		return
	}
	f := l.frame
	f.width, f.height = l.screen.size()
	f.now, f.spin = time.Now(), l.spin
	lines := l.picture(f)
	if lines == nil {
		return
	}
	var b bytes.Buffer
	if l.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.drawn)
	}
	for _, line := range lines {
		b.WriteString("\r\x1b[2K" + line + "\n")
	}
	b.WriteString("\x1b[J")
	l.drawn = len(lines)
	// A terminal that is gone takes nothing with it: the job goes on.
	_, _ = l.w.Write(b.Bytes())
}

// A spout is where log lines go. While a drawing is shown they come out above
// it, so that neither tears the other. It may be used from several goroutines.
type spout struct {
	w io.Writer

	mu   sync.Mutex // guards what follows
	live *live      // nil: nothing is drawn
}

// Write takes whole lines.
func (s *spout) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return s.w.Write(p)
	}
	if _, err := s.live.above(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *spout) lead(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = l
}

// A drawing is a live tree that log lines come out above of.
type drawing struct {
	*live
	logs *spout
}

func newDrawing(l *live, logs *spout) drawing {
	logs.lead(l)
	return drawing{l, logs}
}

func (d drawing) close() {
	d.logs.lead(nil)
	d.live.close()
}
