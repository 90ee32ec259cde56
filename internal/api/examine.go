package api

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/health"
)

const (
	// examineEvery is the age of an examination from which the overview makes another.
	examineEvery = 5 * time.Minute

	// examineTime is how long the overview may take for that.
	examineTime = 5 * time.Second
)

// An examiner examines the database, once at a time, and keeps the last result.
type examiner struct {
	examine func(context.Context) []health.Finding // nil: it cannot be examined
	now     func() time.Time
	busy    chan struct{} // full while the database is examined

	mu    sync.Mutex
	found []health.Finding
	at    time.Time // when found was found; zero: not yet
	tried time.Time // when the overview last examined
}

// run examines the database. It keeps the result, unless the context has ended: what was found
// then may be of that.
func (e *examiner) run(ctx context.Context) ([]health.Finding, error) {
	if e.examine == nil {
		return nil, pawl.Errorf(pawl.Unavailable, "this server cannot examine its database")
	}
	select {
	case e.busy <- struct{}{}:
		defer func() { <-e.busy }()
	default:
		return nil, pawl.Errorf(pawl.Unavailable, "the database is being examined for another request")
	}
	began := e.now()
	found := e.examine(ctx)
	if ctx.Err() == nil {
		e.mu.Lock()
		e.found, e.at = found, began
		e.mu.Unlock()
	}
	return found, nil
}

// last returns the last result and its time, after another examination if it is old and
// nobody else makes one.
func (e *examiner) last(ctx context.Context) ([]health.Finding, time.Time) {
	if e.due() {
		limited, cancel := context.WithTimeout(ctx, examineTime)
		defer cancel()
		_, _ = e.run(limited) // who is busy keeps a result as well
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if ctx.Err() != nil {
		e.tried = time.Time{} // its caller has left: the next one tries
	}
	return e.found, e.at
}

// due reports whether it is time for another examination, to one caller.
func (e *examiner) due() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	if e.examine == nil || now.Sub(e.at) < examineEvery || now.Sub(e.tried) < examineEvery {
		return false
	}
	e.tried = now
	return true
}

// An Examination is what the doctor has found, as an overview shows it.
type Examination struct {
	At       pawl.Timestamp   `json:"at"`
	Age      int64            `json:"age_seconds" minimum:"0" doc:"How long ago that was."`
	Problems int              `json:"problems" doc:"How many findings are problems: something is wrong now."`
	Warnings int              `json:"warnings" doc:"How many are warnings: something will go wrong, or is worse than it could be."`
	Findings []health.Finding `json:"findings,omitempty" doc:"The problems, then the warnings. Only for an admin."`
}

// examination returns what the caller may see of the last examination. It is about all
// workspaces, so that a caller of some of them sees nothing: its counts would tell of the others.
func (s *Service) examination(ctx context.Context) *Examination {
	who := access.Of(ctx)
	if !who.Everywhere() {
		return nil
	}
	found, at := s.examiner.last(ctx)
	if at.IsZero() {
		return nil
	}
	x := &Examination{At: stamp(at), Age: int64(max(0, s.Now().Sub(at)).Seconds())}
	of := func(severity health.Severity) int {
		some := slices.DeleteFunc(slices.Clone(found), func(f health.Finding) bool { return f.Severity != severity })
		if who.Holds(Admin) {
			x.Findings = append(x.Findings, some...)
		}
		return len(some)
	}
	x.Problems, x.Warnings = of(health.Problem), of(health.Warning)
	return x
}
