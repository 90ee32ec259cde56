package health

import (
	"fmt"
	"slices"
	"time"
)

// A Lock is how the lock of a worker's name was found.
type Lock int

// What a lock may be. Only Free is proof that nobody will use it again.
const (
	Held Lock = iota // by the worker's process
	Lost             // by nobody: the server dropped it with a connection
	Free             // by nobody: its owner has released it, or the kernel has when its process died
)

// A Sighting is what a store saw of one worker. Times are microseconds by the clock of
// the database.
type Sighting struct {
	Worker int64
	Beat   int64 // the last one, or the registration if that is later
	Lock   Lock
}

// A Report is what a store saw of workers, in one look.
type Report struct {
	Now     int64      // by the clock of the database
	Started int64      // when the database server was started; 0: it has no start of its own
	Workers []Sighting // all in a living state
	Ended   []Sighting // those that have ended and still hold steps; their locks say nothing
}

// A Cause is how a death was told.
type Cause int

// The causes.
const (
	Gone   Cause = iota + 1 // its process is known to be dead
	Silent                  // it has not been heard of for as long as the silence
	Ended                   // its record had ended before; what counts is for how long it is quiet
)

// A Death is the verdict on a worker that no longer lives.
type Death struct {
	Worker int64
	Cause  Cause
	Quiet  time.Duration // for so long nothing was heard, as silence is measured
	Counts bool          // it is a loss of the steps that the worker held
}

// Reason returns in words how the death was told.
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

// maxDrift is by how much the clock of the database and the observer's may differ
// between two answers, beyond what the time of the answers explains.
const maxDrift = time.Second

// A Judge is one observer. Times that are given to it carry a monotonic clock reading.
// It is not safe for concurrent use.
type Judge struct {
	silence time.Duration
	every   time.Duration // how far apart it is meant to ask

	contact  time.Time // when the unbroken run of contact began; zero: there is none
	asked    time.Time // the last question that was answered
	answered time.Time // when that was
	now      int64     // what the clock of the database showed then
	open     time.Time // when the oldest question was asked that had no answer yet; zero: there is none

	seen map[int64]seen
}

// seen is what a judge remembers of a worker.
type seen struct {
	beat  int64
	first time.Time // when that beat was seen first
	lost  time.Time // when the first look was begun that found the lock lost, after that beat; zero: none has
}

// NewJudge returns a judge that asks at intervals of every, at most.
func NewJudge(silence, every time.Duration) *Judge {
	return &Judge{silence: silence, every: every, seen: make(map[int64]seen)}
}

// Failed notes a question that was asked at that time and not answered.
func (j *Judge) Failed(asked time.Time) {
	if j.open.IsZero() {
		j.open = asked
	}
}

// Heard notes an answer: the clock of the database showed now between the two times.
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

// broken reports whether the contact has an interruption before this answer.
func (j *Judge) broken(now int64, asked, answered time.Time) bool {
	beat := Beat(j.silence)
	unanswered, idle := answered.Sub(j.open), j.open.Sub(j.answered)
	passed := micros(now - j.now)
	return unanswered >= beat || idle >= j.every+beat ||
		passed < asked.Sub(j.answered)-maxDrift || passed > answered.Sub(j.asked)+maxDrift
}

// Look judges a report that was asked for and answered at those times. It returns the
// dead, in the order of the report, and with them those that had ended before.
func (j *Judge) Look(r *Report, asked, answered time.Time) (dead []Death) {
	j.Heard(r.Now, asked, answered)
	now := make(map[int64]seen, len(r.Workers))
	look := func(w Sighting) (seen, time.Duration) {
		s := j.seen[w.Worker].next(w, asked, answered)
		now[w.Worker] = s
		return s, min(s.age(r, answered), answered.Sub(j.contact))
	}
	for _, w := range r.Workers {
		s, quiet := look(w)
		confirmed := !s.lost.IsZero() && asked.Sub(s.lost) >= Apart(j.silence)
		if cause := j.cause(w.Lock, quiet, confirmed); cause != 0 {
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

// next returns what is known of a worker after it was seen again.
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

// age returns how old the last beat is, or the start of the server if that is later. A
// beat from the future tells that the clock was set back: the observer's own counts.
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

// cause judges one worker. The lock lost is confirmed by an earlier look.
func (j *Judge) cause(lock Lock, quiet time.Duration, confirmed bool) Cause {
	switch {
	case lock == Free, lock == Lost && confirmed && quiet >= 2*Beat(j.silence):
		return Gone
	case quiet >= j.silence:
		return Silent
	}
	return 0
}

// others reports whether another worker has beaten of late.
func others(r *Report, worker int64, silence time.Duration) bool {
	return slices.ContainsFunc(r.Workers, func(w Sighting) bool {
		age := micros(r.Now - w.Beat)
		return w.Worker != worker && w.Lock == Held && age >= 0 && age < 2*Beat(silence)
	})
}

// Glance says of one report alone who seems dead: for people to read, since no single
// look is enough to act on.
func Glance(r *Report, silence time.Duration) (dead []Death) {
	j := NewJudge(silence, 0)
	for _, w := range r.Workers {
		s := seen{beat: w.Beat}
		quiet := time.Duration(0)
		if w.Beat <= r.Now {
			quiet = s.age(r, time.Time{})
		}
		if cause := j.cause(w.Lock, quiet, true); cause != 0 {
			dead = append(dead, Death{Worker: w.Worker, Cause: cause, Quiet: quiet, Counts: cause == Gone || others(r, w.Worker, silence)})
		}
	}
	return dead
}

// Proven returns those whose death one report proves: nobody holds their lock, and
// nobody will.
func Proven(r *Report) (dead []Death) {
	for _, w := range r.Workers {
		if w.Lock == Free {
			dead = append(dead, Death{Worker: w.Worker, Cause: Gone, Counts: true})
		}
	}
	return dead
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
