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

// A Component is a part of a process that runs in a loop.
type Component struct {
	Name string // the id of its service, and its label in metrics
	Doc  string // what it does, in one line

	// Run works until ctx ends. Returning earlier is a failure, even with a nil error.
	Run func(ctx context.Context) error

	// Progress returns what it has done, in all its runs. It must not block. Nil: only
	// whether Run is running is known.
	Progress func() Progress

	// Every is the interval between the starts of rounds. 0: rounds come with events.
	Every time.Duration

	// Optional means that the process works without it: it never makes the process
	// unready.
	Optional bool

	// StuckAfter is when it counts as stuck: a round takes longer, or the next one is
	// later than Every by more than this. 0: never.
	StuckAfter time.Duration
}

// Progress is what a component has done.
type Progress struct {
	Rounds   uint64    // rounds that have ended
	Failures uint64    // rounds that have failed
	At       time.Time // when the last round ended; zero: none has
	Busy     time.Time // when the longest-running current round began; zero: none runs
	Error    string    // of the last round; empty: it succeeded
	Found    uint64    // inconsistencies found and repaired
}

const (
	gracePeriod   = 2 * time.Second // in which a new run does not count as failing
	stableAfter   = time.Minute     // a run this long resets the count of failures
	escalateAfter = 5               // consecutive failures
)

// backoff is the delay between runs.
var backoff = supervisor.Backoff{Base: time.Second, Max: time.Minute}

// A loop is a component and its current run. Its methods may be called from any goroutine.
type loop struct {
	Component
	log  *slog.Logger
	wake func() // makes the service observe the loop

	mu     sync.Mutex
	cancel context.CancelFunc // of the current run
	done   chan struct{}      // closed when the current run has ended; nil: there is none
	state  observed           // without its Progress
}

// observed is the observed state of a loop.
type observed struct {
	Alive               bool
	Generation          uint64    // the desired generation when the run began
	Starts              int       // runs so far
	StartedAt           time.Time // of the current run, or the last one
	Exit                string    // how the last run ended
	ConsecutiveFailures int       // runs in a row that ended without being stopped
	RetryAt             time.Time // when the next run may begin
	Progress            Progress
}

// observe returns the observed state.
func (l *loop) observe() observed {
	l.mu.Lock()
	s := l.state
	l.mu.Unlock()
	if l.Component.Progress != nil {
		s.Progress = l.Component.Progress()
	}
	return s
}

// start starts a run, unless there is one.
func (l *loop) start(generation uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel, l.done = cancel, make(chan struct{})
	l.state.Alive, l.state.Generation, l.state.StartedAt = true, generation, time.Now()
	l.state.Starts++
	go l.run(ctx)
}

// run is the goroutine of a run.
func (l *loop) run(ctx context.Context) {
	err := errExited // if Run calls runtime.Goexit
	defer func() { l.ended(ctx, err) }()
	err = l.runRecovered(ctx)
}

var errExited = errors.New("it ended its goroutine by runtime.Goexit")

// runRecovered calls Run, and returns its error or its panic.
func (l *loop) runRecovered(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
			l.log.Error("a part of this process panicked", "service", l.Name, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
		}
	}()
	return l.Run(ctx)
}

// ended records how a run has ended.
func (l *loop) ended(ctx context.Context, err error) {
	now := time.Now()
	l.mu.Lock()
	stopped := ctx.Err() != nil
	s := &l.state
	before := s.Exit
	s.Alive = false
	switch {
	case err != nil:
		s.Exit = err.Error()
	case stopped:
		s.Exit = "it was stopped"
	default:
		s.Exit = "it returned without an error"
	}
	if stopped || now.Sub(s.StartedAt) >= stableAfter {
		s.ConsecutiveFailures = 0
	}
	if s.RetryAt = now; !stopped {
		s.ConsecutiveFailures++
		s.RetryAt = now.Add(backoff.Delay(s.ConsecutiveFailures, rand.Float64()))
		level := slog.LevelError
		if s.Exit == before { // which is in the log already
			level = slog.LevelInfo
		}
		l.log.Log(ctx, level, "a part of this process has ended; it is started again", "service", l.Name, "error", s.Exit, "in", s.RetryAt.Sub(now))
	}
	l.cancel()
	close(l.done)
	l.done = nil
	l.mu.Unlock()
	l.wake()
}

// stop cancels the current run and waits until it has ended, or ctx has.
func (l *loop) stop(ctx context.Context) error {
	l.mu.Lock()
	done := l.done
	if done != nil {
		l.cancel()
	}
	l.mu.Unlock()
	if done == nil {
		return nil
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("it still runs after it was cancelled: %w", context.Cause(ctx))
	}
}

// skipBackoff lets the next run begin at once, and resets the count of failures.
func (l *loop) skipBackoff() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.ConsecutiveFailures, l.state.RetryAt = 0, time.Time{}
}

// stuck says why a running loop counts as stuck, or returns "".
func (l *loop) stuck(s observed, now time.Time) string {
	if l.Component.Progress == nil || l.StuckAfter == 0 {
		return ""
	}
	p := s.Progress
	if !p.Busy.IsZero() {
		if took := now.Sub(p.Busy); took > l.StuckAfter {
			return fmt.Sprintf("a round has been running for %s", took.Round(time.Second))
		}
		return ""
	}
	idle := now.Sub(latest(p.At, s.StartedAt))
	if l.Every > 0 && idle > l.Every+l.StuckAfter {
		return fmt.Sprintf("no round has begun for %s: want one every %s", idle.Round(time.Second), l.Every)
	}
	return ""
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// failing returns the error of the last round, or "".
func (l *loop) failing(s observed, now time.Time) string {
	if now.Sub(s.StartedAt) < gracePeriod {
		return ""
	}
	return s.Progress.Error
}
