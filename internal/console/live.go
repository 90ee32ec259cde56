package console

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Follower shows a job as it changes. Since, if called at all, comes before the first Show;
// its state counts as known already. Close comes last.
type Follower interface {
	Since(v *pawl.JobView)
	Show(v *pawl.JobView)
	Close()
}

// Silent shows nothing.
type Silent struct{}

func (Silent) Since(*pawl.JobView) {}
func (Silent) Show(*pawl.JobView)  {}
func (Silent) Close()              {}

// Live redraws in place what changes: a job as a tree, or services as a table.
type Live struct {
	w      io.Writer
	screen Screen
	frame  Frame         // of each drawing, except the terminal's size and the time
	every  time.Duration // time between two drawings

	stop chan struct{}
	over chan struct{}

	mu      sync.Mutex           // guards the fields below
	picture func(Frame) []string // nil: there is nothing to draw; nil lines: not now
	drawn   int                  // lines on the terminal that the next drawing replaces
	spin    int
}

func NewLive(w io.Writer, s Screen, f Frame) *Live { return StartLive(w, s, f, 100*time.Millisecond) }

func StartLive(w io.Writer, s Screen, f Frame, every time.Duration) *Live {
	l := &Live{w: w, screen: s, frame: f, every: every, stop: make(chan struct{}), over: make(chan struct{})}
	go l.loop()
	return l
}

func (l *Live) loop() {
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

func (l *Live) Since(*pawl.JobView) {}

func (l *Live) Show(v *pawl.JobView) {
	l.Paint(func(f Frame) []string {
		if lifecycle.Job.Ended(v.Status) {
			f.height = 0 // the last drawing may scroll
		}
		return drawTree(v, f)
	})
}

// Paint sets the picture that is drawn from now on.
func (l *Live) Paint(picture func(Frame) []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.picture = picture
	l.draw()
}

// Close draws once more and leaves the cursor below the drawing.
func (l *Live) Close() {
	close(l.stop)
	<-l.over
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draw()
}

// above writes text in place of the drawing, and redraws below it.
func (l *Live) above(text []byte) (int, error) {
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
func (l *Live) draw() {
	if l.picture == nil {
		return
	}
	f := l.frame
	f.width, f.height = l.screen.Size()
	f.Now, f.spin = time.Now(), l.spin
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
	// The job goes on when its terminal is gone.
	_, _ = l.w.Write(b.Bytes())
}

// A LogWriter takes log lines. While a drawing is shown they appear above it, so that neither
// garbles the other. It is safe for concurrent use.
type LogWriter struct {
	W io.Writer

	mu   sync.Mutex // guards the fields below
	live *Live      // nil: nothing is drawn
}

// Write takes whole lines.
func (s *LogWriter) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		return s.W.Write(p)
	}
	if _, err := s.live.above(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (s *LogWriter) lead(l *Live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = l
}

// A Drawing is a live tree with log lines above it.
type Drawing struct {
	*Live
	logs *LogWriter
}

func NewDrawing(l *Live, logs *LogWriter) Drawing {
	logs.lead(l)
	return Drawing{l, logs}
}

func (d Drawing) Close() {
	d.logs.lead(nil)
	d.Live.Close()
}

// Buffer puts an [AsyncWriter] in front of the writer until stop is called, so that writers
// never wait for a terminal.
func (s *LogWriter) Buffer() (stop func()) {
	to := s.W
	r := NewAsyncWriter(to)
	s.W = r
	return func() {
		r.Close()
		s.W = to
	}
}

// A Screen is the terminal that talk is written to.
type Screen struct {
	Terminal bool                       // stderr is a terminal that can be redrawn
	Size     func() (width, height int) // in characters
}

// ScreenOf returns the screen of a file, if the file is a terminal.
func ScreenOf(f *os.File) Screen {
	return Screen{
		Terminal: term.IsTerminal(int(f.Fd())),
		Size: func() (int, int) {
			w, h, err := term.GetSize(int(f.Fd()))
			if err != nil || w == 0 || h == 0 {
				return 80, 24
			}
			return w, h
		},
	}
}

// Columns returns the width of the terminal that the file is, or 0 if it is not one.
func Columns(f *os.File) int {
	if !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
		return w
	}
	return 80
}
