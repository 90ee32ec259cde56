// Package server keeps loops of this process running, as services of package
// supervisor: the parts of an engine, the port of a server. A loop that ends or
// panics is begun again after a backoff. One that is stuck is shown and escalated, and
// nobody replaces it by force, since a goroutine cannot be killed.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/supervisor"
)

// A Routine is a loop.
type Routine struct {
	Name string // its id, and its label in metrics
	Doc  string // what it does, in a line

	// Run works until ctx ends. That it returns before is a failure, without an
	// error, too.
	Run func(ctx context.Context) error

	// Seen answers what it has done, without waiting. Nil: all that is known is
	// whether it runs.
	Seen func() Progress

	// Every is how far apart rounds begin when all is well; 0: they come with events.
	Every time.Duration

	// Aside means that the process does its work without it: it is never what keeps
	// the process from being ready.
	Aside bool

	// Patience is how much longer than that a round may be away, and how long one may
	// take, before the loop is taken for stuck. 0: it never is.
	Patience time.Duration
}

// Progress is what a routine has done.
type Progress struct {
	Rounds   uint64    // that have ended
	Failures uint64    // of them
	At       time.Time // when the last of them ended; zero: none has
	Busy     time.Time // when the one began that runs for the longest; zero: it waits
	Error    string    // of the last round; empty: it went well
	Found    uint64    // that should not be, and was mended
}

const (
	settling = 2 * time.Second // before which a new run is not blamed for what it has not done yet
	steady   = time.Minute     // a run that lasts so long makes up for failures before it
	tooMany  = 5               // runs that end in a row are for a person to look at
)

// backoff is that between runs.
var backoff = supervisor.Backoff{Base: time.Second, Max: time.Minute}

// A loop is a routine and its run. Its methods may be called from any goroutine.
type loop struct {
	Routine
	log  *slog.Logger
	wake func() // has the service look

	mu     sync.Mutex
	cancel context.CancelFunc // of the run under way
	over   chan struct{}      // closed when the run under way has ended; nil: none is
	last   sight              // but for its Progress
}

// A sight is what is observed of a loop.
type sight struct {
	Alive    bool
	Order    uint64    // the newest when the run began
	Starts   int       // of runs
	Begun    time.Time // the run, or the last one
	Exit     string    // how the last run ended
	Streak   int       // runs in a row that have ended by themselves
	RetryAt  time.Time // when the next one may begin
	Progress Progress
}

// look observes the loop.
func (l *loop) look() sight {
	l.mu.Lock()
	s := l.last
	l.mu.Unlock()
	if l.Seen != nil {
		s.Progress = l.Seen()
	}
	return s
}

// begin begins a run, unless one is under way.
func (l *loop) begin(order uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.over = cancel, make(chan struct{})
	l.last.Alive, l.last.Order, l.last.Begun = true, order, time.Now()
	l.last.Starts++
	go l.run(ctx)
}

// run is the goroutine of a run.
func (l *loop) run(ctx context.Context) {
	err := errExited // if it ends its goroutine
	defer func() { l.ended(ctx, err) }()
	err = l.guarded(ctx)
}

var errExited = errors.New("it ended its goroutine by runtime.Goexit")

// guarded answers the error of a run, or its panic.
func (l *loop) guarded(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			l.log.Error("a part of this process panicked", "service", l.Name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	return l.Run(ctx)
}

// ended notes how a run has ended.
func (l *loop) ended(ctx context.Context, err error) {
	now := time.Now()
	l.mu.Lock()
	asked := ctx.Err() != nil
	s := &l.last
	before := s.Exit
	s.Alive = false
	switch {
	case err != nil:
		s.Exit = err.Error()
	case asked:
		s.Exit = "it was stopped"
	default:
		s.Exit = "it returned without an error"
	}
	if asked || now.Sub(s.Begun) >= steady {
		s.Streak = 0
	}
	if s.RetryAt = now; !asked {
		s.Streak++
		s.RetryAt = now.Add(backoff.Delay(s.Streak, rand.Float64()))
		level := slog.LevelError
		if s.Exit == before { // of which the log was told
			level = slog.LevelInfo
		}
		l.log.Log(ctx, level, "a part of this process has ended; it is begun again", "service", l.Name, "error", s.Exit, "in", s.RetryAt.Sub(now))
	}
	l.cancel()
	close(l.over)
	l.over = nil
	l.mu.Unlock()
	l.wake()
}

// end cancels the run under way and waits for its end, or for that of ctx.
func (l *loop) end(ctx context.Context) error {
	l.mu.Lock()
	over := l.over
	if over != nil {
		l.cancel()
	}
	l.mu.Unlock()
	if over == nil {
		return nil
	}
	select {
	case <-over:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it goes on after it was cancelled: %w", context.Cause(ctx))
	}
}

// hasten lets the next run begin at once.
func (l *loop) hasten() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last.Streak, l.last.RetryAt = 0, time.Time{}
}

// stuck says in what way a loop that runs does not get on, or nothing.
func (l *loop) stuck(s sight, now time.Time) string {
	if l.Seen == nil || l.Patience == 0 {
		return ""
	}
	p := s.Progress
	if !p.Busy.IsZero() {
		if took := now.Sub(p.Busy); took > l.Patience {
			return fmt.Sprintf("a round has been running for %s", took.Round(time.Second))
		}
		return ""
	}
	idle := now.Sub(latest(p.At, s.Begun))
	if l.Every > 0 && idle > l.Every+l.Patience {
		return fmt.Sprintf("no round has begun for %s: want one each %s", idle.Round(time.Second), l.Every)
	}
	return ""
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// failing says why the last round of a loop failed, or nothing.
func (l *loop) failing(s sight, now time.Time) string {
	if now.Sub(s.Begun) < settling {
		return ""
	}
	return s.Progress.Error
}
