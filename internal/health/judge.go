package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/internal/rowkey"
)

// A Lock is the observed state of the lock of a worker's name.
type Lock int

// The states of a lock. Only Free proves that the worker's process is gone.
const (
	Held Lock = iota // held by the worker's process
	Lost             // not held: the server dropped it with a connection
	Free             // not held: released by its owner, or by the kernel when its process died
	None             // there is none: the worker is remote, and judged by its beats alone
)

// A Sighting is what a store observed of one worker. Times are microseconds of the clock
// of the database.
type Sighting struct {
	Worker  rowkey.Worker
	Beat    int64 // the last one, or the registration if that is later
	Lock    Lock
	Silence time.Duration // the worker's own, if it is longer than the observer's
}

// A Report is what a store observed of all workers at one moment.
type Report struct {
	Now     int64      // by the clock of the database
	Started int64      // when the database server was started; 0: there is no server
	Workers []Sighting // all in a living state
	Ended   []Sighting // those that have ended and still hold steps; their locks mean nothing
}

// A Cause is how a death was found out.
type Cause int

// The causes.
const (
	Gone   Cause = iota + 1 // its process is known to be dead
	Silent                  // it has not beaten for the whole silence
	Ended                   // its record had ended before; Quiet says how long ago it was last heard
)

// A Death is the verdict on a worker that no longer lives.
type Death struct {
	Worker rowkey.Worker
	Cause  Cause
	Quiet  time.Duration // how long it has been silent
	Counts bool          // it counts as a loss of the steps that the worker held
}

// Reason describes how the death was found out.
func (d Death) Reason() string {
	switch {
	case d.Cause == Gone:
		return "its process is gone"
	case d.Cause == Ended:
		return "it had ended while it held steps"
	case d.Counts:
		return fmt.Sprintf("silent for %d s", int(d.Quiet.Seconds()))
	}
	return fmt.Sprintf("silent for %d s, as all workers were", int(d.Quiet.Seconds()))
}

// maxDrift is how much the clock of the database and the observer's may diverge between
// two responses, beyond what their round trips explain.
const maxDrift = time.Second

// A Judge judges for one observer. Times that are passed to it must have a monotonic clock
// reading. It is not safe for concurrent use.
type Judge struct {
	silence time.Duration
	every   time.Duration // the interval between its queries

	contact  time.Time // when the unbroken contact began; zero: there is none
	asked    time.Time // when the last successful query was sent
	answered time.Time // when its response arrived
	now      int64     // the clock of the database at that query
	open     time.Time // when the first query since then was sent; zero: there is none

	seen map[rowkey.Worker]seen
}

// seen is what a judge remembers of a worker.
type seen struct {
	beat  int64
	first time.Time // when that beat was first seen
	lost  time.Time // when the first query was sent that found the lock lost after that beat; zero: none has
}

// NewJudge returns a judge for an observer that queries at least every interval.
func NewJudge(silence, every time.Duration) *Judge {
	return &Judge{silence: silence, every: every, seen: make(map[rowkey.Worker]seen)}
}

// Failed records a query that was sent at that time and failed.
func (j *Judge) Failed(asked time.Time) {
	if j.open.IsZero() {
		j.open = asked
	}
}

// Heard records a response: the clock of the database showed now between the two times.
func (j *Judge) Heard(now int64, asked, answered time.Time) {
	if j.open.IsZero() {
		j.open = asked
	}
	if j.contact.IsZero() || j.broken(now, asked, answered) {
		j.contact = answered
		for worker, s := range j.seen {
			s.lost = time.Time{}
			j.seen[worker] = s
		}
	}
	j.asked, j.answered, j.now, j.open = asked, answered, now, time.Time{}
}

// broken reports whether contact was interrupted before this response.
func (j *Judge) broken(now int64, asked, answered time.Time) bool {
	beat := Beat(j.silence)
	unanswered, idle := answered.Sub(j.open), j.open.Sub(j.answered)
	passed := micros(now - j.now)
	return unanswered >= beat || idle >= j.every+beat ||
		passed < asked.Sub(j.answered)-maxDrift || passed > answered.Sub(j.asked)+maxDrift
}

// Look judges a report that was queried and received at those times. It returns the dead,
// in the order of the report, followed by those that had ended before.
func (j *Judge) Look(r *Report, asked, answered time.Time) (dead []Death) {
	j.Heard(r.Now, asked, answered)
	now := make(map[rowkey.Worker]seen, len(r.Workers))
	look := func(w Sighting) (seen, time.Duration) {
		s := j.seen[w.Worker].next(w, asked, answered)
		now[w.Worker] = s
		return s, min(s.age(r, answered), answered.Sub(j.contact))
	}
	for _, w := range r.Workers {
		s, quiet := look(w)
		confirmed := !s.lost.IsZero() && asked.Sub(s.lost) >= Apart(j.silence)
		if cause := j.cause(w, quiet, confirmed); cause != 0 {
			dead = append(dead, Death{Worker: w.Worker, Cause: cause, Quiet: quiet, Counts: cause == Gone || others(r, w.Worker, j.silence)})
		}
	}
	for _, w := range r.Ended {
		_, quiet := look(w)
		dead = append(dead, Death{Worker: w.Worker, Cause: Ended, Quiet: quiet, Counts: true})
	}
	j.seen = now
	return dead
}

// next returns s updated with another sighting.
func (s seen) next(w Sighting, asked, answered time.Time) seen {
	if s.first.IsZero() || s.beat != w.Beat {
		s = seen{beat: w.Beat, first: answered}
	}
	switch {
	case w.Lock != Lost:
		s.lost = time.Time{}
	case s.lost.IsZero():
		s.lost = asked
	}
	return s
}

// age returns the time since the last beat, or since the start of the server if that is
// later. A beat from the future means that the clock was set back: then the observer's
// clock counts.
func (s seen) age(r *Report, answered time.Time) time.Duration {
	if s.beat > r.Now {
		return answered.Sub(s.first)
	}
	last := s.beat
	if r.Started <= r.Now {
		last = max(last, r.Started)
	}
	return micros(r.Now - last)
}

// cause judges one worker. confirmed means that an earlier query found the lock lost, too.
func (j *Judge) cause(w Sighting, quiet time.Duration, confirmed bool) Cause {
	switch {
	case w.Lock == Free, w.Lock == Lost && confirmed && quiet >= 2*Beat(j.silence):
		return Gone
	case quiet >= max(j.silence, w.Silence):
		return Silent
	}
	return 0
}

// others reports whether another worker has beaten recently.
func others(r *Report, worker rowkey.Worker, silence time.Duration) bool {
	return slices.ContainsFunc(r.Workers, func(w Sighting) bool {
		age := micros(r.Now - w.Beat)
		return w.Worker != worker && (w.Lock == Held || w.Lock == None) && age >= 0 && age < 2*Beat(silence)
	})
}

// Glance returns who seems dead by one report alone. It is for people to read: one report
// is not enough to act on.
func Glance(r *Report, silence time.Duration) (dead []Death) {
	j := NewJudge(silence, 0)
	for _, w := range r.Workers {
		s := seen{beat: w.Beat}
		quiet := time.Duration(0)
		if w.Beat <= r.Now {
			quiet = s.age(r, time.Time{})
		}
		if cause := j.cause(w, quiet, true); cause != 0 {
			dead = append(dead, Death{Worker: w.Worker, Cause: cause, Quiet: quiet, Counts: cause == Gone || others(r, w.Worker, silence)})
		}
	}
	return dead
}

// Proven returns those whose death one report proves: their lock was released.
func Proven(r *Report) (dead []Death) {
	for _, w := range r.Workers {
		if w.Lock == Free {
			dead = append(dead, Death{Worker: w.Worker, Cause: Gone, Counts: true})
		}
	}
	return dead
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
