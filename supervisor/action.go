package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// An Action is one idempotent attempt to bring a service nearer to what is
// desired. It runs in a goroutine of its own. A retry is another decision of
// Next, on fresh facts (S7).
//
// It may have limits of its own ([Limited]) and a key other than its name
// ([Keyed]).
type Action interface {
	Name() string // a label: the same for all actions of a kind

	// Execute returns nil when it is done. It should return soon after its context
	// is cancelled; context.Cause then says why: [ErrActionTimeout],
	// [ErrPreempted] or [ErrShuttingDown].
	Execute(ctx context.Context, run Run) error
}

// Keyed is an action whose intent is more than its name. Actions with the same
// key are attempts of the same intent: they share the count of attempts and the
// backoff.
type Keyed interface{ Key() string }

// Limited is an action with limits of its own. Fields that are zero are those of
// the service.
type Limited interface{ Limits() ActionLimits }

// ActionLimits bound an action (S6, S7).
type ActionLimits struct {
	Timeout      time.Duration // of one attempt; 0: 5 minutes
	Grace        time.Duration // from its cancellation until it is abandoned; 0: 5 s
	Attempts     int           // in all, before it has failed for good; 0: 4; -1: no limit
	Backoff      Backoff       // between attempts
	AllowOverlap bool          // another action may start though an abandoned one still runs
	NeverOverlap bool          // not even where AllowOverlap is the default
}

// over fills what l leaves open from d.
func (l ActionLimits) over(d ActionLimits) ActionLimits {
	fill(&l.Timeout, d.Timeout)
	fill(&l.Grace, d.Grace)
	fill(&l.Attempts, d.Attempts)
	fill(&l.Backoff, d.Backoff)
	l.AllowOverlap = !l.NeverOverlap && (l.AllowOverlap || d.AllowOverlap)
	return l
}

// validate names the first limit that is below zero, of is put before its name.
func (l ActionLimits) validate(of string) error {
	for _, d := range [...]struct {
		field string
		value time.Duration
	}{{"Timeout", l.Timeout}, {"Grace", l.Grace}, {"Backoff.Base", l.Backoff.Base}, {"Backoff.Max", l.Backoff.Max}} {
		if d.value < 0 {
			return fmt.Errorf("%w: %s%s %s: want more than 0", ErrInvalid, of, d.field, d.value)
		}
	}
	if l.Attempts < -1 {
		return fmt.Errorf("%w: %sAttempts %d: want -1 or more", ErrInvalid, of, l.Attempts)
	}
	return nil
}

// fill sets a field that is zero.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Run is one attempt, as its action sees it.
type Run struct {
	ID      string // the same for all attempts of one intent: a key for idempotency downstream
	Fence   uint64 // rises with every attempt of the service: refuse an older one
	Attempt int    // from 1
	Log     *slog.Logger
}

// ActionStatus is about the last action of a service (S8): the supervisor fills
// it, in every snapshot. It is replaced as a whole by that of the next action.
//
// At most one of InProgress, Succeeded and Failed is true. None of them is before
// the first action, between two attempts (NotBefore is set), and after an action
// was cancelled or interrupted. Failed means that the action is not tried again
// until state or desired state changes; from then on a snapshot has it false, and
// Kind and ErrorMessage still say what was.
type ActionStatus struct {
	InProgress   bool      `json:"in_progress,omitzero"`
	Succeeded    bool      `json:"succeeded,omitzero"`
	Failed       bool      `json:"failed,omitzero"` // for good
	ActionName   string    `json:"action_name,omitzero"`
	Key          string    `json:"key,omitzero"`
	ID           string    `json:"id,omitzero"`
	Fence        uint64    `json:"fence,omitzero"`
	Retries      int       `json:"retries,omitzero"` // attempts before this one
	StartedAt    time.Time `json:"started_at,omitzero"`
	FinishedAt   time.Time `json:"finished_at,omitzero"`
	NotBefore    time.Time `json:"not_before,omitzero"` // of the next attempt
	Kind         ErrorKind `json:"kind,omitzero"`
	ErrorMessage string    `json:"error_message,omitzero"`
	Abandoned    bool      `json:"abandoned,omitzero"` // its goroutine ignored the end and still runs
}

// An ErrorKind says in one word what became of an attempt that did not succeed.
type ErrorKind string

// The kinds. Those of a permanent kind, and cancelled ones, are not tried again
// until state or desired state changes.
const (
	KindNone        ErrorKind = ""
	KindRetriable   ErrorKind = "retriable"
	KindPermanent   ErrorKind = "permanent"
	KindTimeout     ErrorKind = "timeout"     // retriable
	KindPanic       ErrorKind = "panic"       // permanent
	KindCancelled   ErrorKind = "cancelled"   // by its state or by a shutdown; no failure
	KindInterrupted ErrorKind = "interrupted" // the process died meanwhile: neither success nor failure
)

// retriable reports whether an attempt that ended like this may have another.
func (k ErrorKind) retriable() bool { return k == KindRetriable || k == KindTimeout }

// An ActionExecutor runs the attempts of actions (S1): where, is its affair. Execute
// returns when the attempt has ended. It is called in a goroutine of the attempt's
// own; the supervisor keeps the deadline, the slot and the retries.
type ActionExecutor interface {
	Execute(ctx context.Context, service Identity, a Action, run Run) error
}

// local runs an attempt where it is.
type local struct{}

func (local) Execute(ctx context.Context, _ Identity, a Action, run Run) error {
	return a.Execute(ctx, run)
}

// keyOf answers the key of an action.
func keyOf(a Action) string {
	if k, ok := a.(Keyed); ok {
		return k.Key()
	}
	return a.Name()
}

// limitsOf answers the limits of an action where the service has those of d.
func limitsOf(a Action, d ActionLimits) ActionLimits {
	if l, ok := a.(Limited); ok {
		return l.Limits().over(d)
	}
	return d
}
