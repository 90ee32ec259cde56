package api

import (
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/internal/load/results"
)

// A line takes what is written at a rate, and breaks at a deadline. A rate of 0 takes nothing.
type line struct {
	http.ResponseWriter
	rate     int // bytes a second
	taken    int
	deadline time.Time
}

func (l *line) SetWriteDeadline(t time.Time) error { l.deadline = t; return nil }
func (l *line) FlushError() error                  { return nil }

func (l *line) Write(data []byte) (int, error) {
	left := time.Until(l.deadline)
	if takes := time.Duration(len(data)) * time.Second / time.Duration(max(l.rate, 1)); takes < left {
		time.Sleep(takes)
		l.taken += len(data)
		return len(data), nil
	}
	time.Sleep(left)
	return 0, os.ErrDeadlineExceeded
}

// TestSlowReaders: a client that takes a large batch slowly gets all of it, and one that takes
// nothing is cut off after eventTime (J3).
func TestSlowReaders(t *testing.T) {
	t.Parallel()
	for rate, want := range map[int]int{8 << 10: 1 << 20, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			l, begun := &line{rate: rate}, time.Now()
			e := &eventWriter{w: l, control: http.NewResponseController(l), buffer: make([]byte, 1<<20)}
			err := e.flush()
			if l.taken != want || (err == nil) != (want > 0) {
				t.Errorf("%d bytes/s: %d bytes were taken, want %d; error %v", rate, l.taken, want, err)
			}
			if took := time.Since(begun); rate == 0 && took != eventTime {
				t.Errorf("cut off after %v, want %v", took, eventTime)
			}
		})
	}
}

// TestLargeBatchesAreSentInPieces, so that a stream keeps no more than a few of them in memory.
func TestLargeBatchesAreSentInPieces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &line{rate: 1 << 20}
		e := &eventWriter{w: l, control: http.NewResponseController(l)}
		data, all := make([]byte, 1000), 0
		for range 1000 {
			e.event("transition", "1", data)
			all += len("event: transition\nid: 1\ndata: \n\n") + len(data)
			if cap(e.buffer) > 4*eventPiece {
				t.Fatalf("it keeps %d bytes; want at most 4 pieces", cap(e.buffer))
			}
		}
		if left := all - l.taken; !e.due || left < 0 || left >= eventPiece {
			t.Errorf("%d of %d bytes are left before the flush; want less than a piece", left, all)
		}
		if err := e.flush(); err != nil || l.taken != all || e.due {
			t.Errorf("%d of %d bytes were taken, %v", l.taken, all, err)
		}
		l.rate = 0
		for range 1000 {
			e.event("transition", "", data)
		}
		if err := e.flush(); err == nil {
			t.Error("a client that takes nothing is not cut off")
		}
	})
}

// TestLinesOfALoadRun: a client that takes nothing is cut off at the first piece, and gets no line after it.
func TestLinesOfALoadRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, begun := &line{}, time.Now()
		f := &loadFollower{out: &eventWriter{w: l, control: http.NewResponseController(l)}}
		all := make([]results.Line, 100)
		for i := range all {
			all[i].Data = make([]byte, eventPiece)
		}
		if err := f.lines(all); err == nil || time.Since(begun) != eventTime || len(f.out.buffer) > 0 {
			t.Errorf("%v after %v, with %d bytes left", err, time.Since(begun), len(f.out.buffer))
		}
		if f.out.bye(); l.taken > 0 || time.Since(begun) != eventTime {
			t.Errorf("%d bytes more were taken, after %v", l.taken, time.Since(begun))
		}
	})
}
