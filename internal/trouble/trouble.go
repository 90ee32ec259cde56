// Package trouble logs failures that repeat: when they begin, each minute while they last, and when
// they are over. A loop that fails every second writes two lines in a short outage, and not two
// thousand in a long one.
package trouble

import (
	"log/slog"
	"time"
)

// remindEvery is the interval between two warnings of the same trouble.
const remindEvery = time.Minute

// A Log is what a loop says about its attempts. Only the goroutine of the loop uses it.
type Log struct {
	log          *slog.Logger
	failed, over string
	since, said  time.Time // zero: the last attempt succeeded
}

// New makes a log that warns with the message failed, and with over when an attempt succeeds again.
func New(log *slog.Logger, failed, over string) *Log {
	return &Log{log: log, failed: failed, over: over}
}

// Note notes the outcome of an attempt.
func (l *Log) Note(err error) {
	now := time.Now()
	switch {
	case err == nil && l.since.IsZero():
	case err == nil:
		l.log.Warn(l.over, "after", now.Sub(l.since).Round(time.Millisecond).String())
		l.since, l.said = time.Time{}, time.Time{}
	case l.since.IsZero():
		l.since, l.said = now, now
		l.log.Warn(l.failed, "error", err)
	case now.Sub(l.said) >= remindEvery:
		l.said = now
		l.log.Warn(l.failed, "error", err, "since", now.Sub(l.since).Round(time.Second).String())
	}
}

// Forget notes that no attempt is made any more, whatever became of the last one.
func (l *Log) Forget() { l.since, l.said = time.Time{}, time.Time{} }
