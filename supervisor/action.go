package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// An Action is one idempotent attempt to bring a service nearer to its desired state. It
// runs in a goroutine of its own. A retry is another decision of Next, on fresh facts
// (S7).
//
// An action may have limits of its own ([Limited]) and a key other than its name
// ([Keyed]).
type Action interface {
	Name() string // a label: the same for all actions of a kind

	// Execute returns nil when it is done. It should return soon after its context
	// is cancelled; context.Cause then says why: [ErrActionTimeout],
	// [ErrPreempted] or [ErrShuttingDown].
	Execute(ctx context.Context, run Run) error
}

// Keyed is an action whose intent is more than its name. Actions with the same key are
// attempts at the same intent: they share the count of attempts and the backoff.
type Keyed interface{ Key() string }

// Limited is an action with limits of its own. Zero fields mean the limits of the service.
type Limited interface{ Limits() ActionLimits }

// ActionLimits bound an action (S6, S7).
type ActionLimits struct {
	Timeout      time.Duration // of one attempt; 0: 5 minutes
	Grace        time.Duration // from its cancellation until it is abandoned; 0: 5 s
	Attempts     int           // in all, until it has failed permanently; 0: 4; -1: no limit
	Backoff      Backoff       // between attempts
	AllowOverlap bool          // another action may start though an abandoned one still runs
	NeverOverlap bool          // overrides AllowOverlap, of this action and of the defaults
}

// withDefaults returns l with its zero fields set to those of d.
func (l ActionLimits) withDefaults(d ActionLimits) ActionLimits {
	fill(&l.Timeout, d.Timeout)
	fill(&l.Grace, d.Grace)
	fill(&l.Attempts, d.Attempts)
	fill(&l.Backoff, d.Backoff)
	l.AllowOverlap = !l.NeverOverlap && (l.AllowOverlap || d.AllowOverlap)
	return l
}

// validate returns an error for the first limit that is below zero, with prefix before the
// name of its field.
func (l ActionLimits) validate(prefix string) error {
	for _, d := range [...]struct {
		field string
		value time.Duration
	}{{"Timeout", l.Timeout}, {"Grace", l.Grace}, {"Backoff.Base", l.Backoff.Base}, {"Backoff.Max", l.Backoff.Max}} {
		if d.value < 0 {
			return fmt.Errorf("%w: %s%s %s: want more than 0", ErrInvalid, prefix, d.field, d.value)
		}
	}
	if l.Attempts < -1 {
		return fmt.Errorf("%w: %sAttempts %d: want -1 or more", ErrInvalid, prefix, l.Attempts)
	}
	return nil
}

// fill sets *field if it is zero.
func fill[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// A Run describes one attempt to its action.
type Run struct {
	ID      string // the same for all attempts at one intent: an idempotency key for what the action calls
	Fence   uint64 // increases with every attempt of the service: what the action calls can refuse an older one
	Attempt int    // from 1
	Log     *slog.Logger
}

// ActionStatus describes the last action of a service (S8). The supervisor sets it in
// every snapshot; that of the next action replaces it as a whole.
//
// At most one of InProgress, Succeeded and Failed is true. None is true before the
// first action, between two attempts (NotBefore is set), and after an action was
// cancelled or interrupted. Failed means that the action is not tried again until the
// state or the desired state changes; after such a change snapshots have it false, and
// Kind and ErrorMessage keep the last failure.
type ActionStatus struct {
	InProgress   bool      `json:"in_progress,omitzero"`
	Succeeded    bool      `json:"succeeded,omitzero"`
	Failed       bool      `json:"failed,omitzero"` // permanently
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
	Abandoned    bool      `json:"abandoned,omitzero"` // its goroutine ignored its cancellation and still runs
}

// An ErrorKind classifies the outcome of an attempt that did not succeed.
type ErrorKind string

// The kinds. After a permanent one or a cancellation the action is not tried again
// until the state or the desired state changes.
const (
	KindNone        ErrorKind = ""
	KindRetriable   ErrorKind = "retriable"
	KindPermanent   ErrorKind = "permanent"
	KindTimeout     ErrorKind = "timeout"     // retriable
	KindPanic       ErrorKind = "panic"       // permanent
	KindCancelled   ErrorKind = "cancelled"   // by Decision.Cancel or a shutdown; not a failure
	KindInterrupted ErrorKind = "interrupted" // the process died meanwhile: whether it succeeded is unknown
)

// retriable reports whether an attempt that ended like this may be retried.
func (k ErrorKind) retriable() bool { return k == KindRetriable || k == KindTimeout }

// An ActionExecutor runs the attempts of actions (S1), in this process or elsewhere.
// Execute returns when the attempt has ended. It is called in a goroutine of the
// attempt's own; the supervisor keeps the deadline, the slot and the retries.
type ActionExecutor interface {
	Execute(ctx context.Context, service Identity, a Action, run Run) error
}

// local runs an attempt in this process.
type local struct{}

func (local) Execute(ctx context.Context, _ Identity, a Action, run Run) error {
	return a.Execute(ctx, run)
}

// keyOf returns the key of an action.
func keyOf(a Action) string {
	if k, ok := a.(Keyed); ok {
		return k.Key()
	}
	return a.Name()
}

// limitsOf returns the limits of an action of a service with limits d.
func limitsOf(a Action, d ActionLimits) ActionLimits {
	if l, ok := a.(Limited); ok {
		return l.Limits().withDefaults(d)
	}
	return d
}
