package engine

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/sleep"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// Withheld payload of a job is erased in bounded steps. Until all of it is gone the job
// stays marked, so that an evaluator continues within seconds if the process at work dies.
// It starts over, and passes over what is gone. Two processes at work on one job do no
// harm.
const (
	eraseHold  = 10 * time.Second // how long the process at work puts the mark of the job off
	eraseAgain = 3 * time.Second  // how often it does so
	eraseTurn  = 2 * time.Second  // how long an evaluator works before it turns to other jobs
)

// hold marks a job that is being redacted, for a later time.
func hold(t *tx, j *pawl.Job) {
	j.Mark, j.MarkAt, j.MarkTries = pawl.Attention, t.now+eraseHold.Microseconds(), 0
	t.jobs[j.Key()].dirty = true
}

// eraseAll continues the redaction of a job until nothing is left.
func (e *Engine) eraseAll(ctx context.Context, job rowkey.Job, total *pawl.Redaction, each func(pawl.Redaction)) error {
	for {
		x, err := e.beginErasure(ctx, job)
		if x == nil || err != nil {
			return err
		}
		for more := true; more; {
			begun := time.Now()
			if more, err = x.step(ctx); err != nil {
				return err
			}
			if each != nil {
				each(plusErased(*total, x))
			}
			if more && !sleep.For(ctx, time.Since(begun)/2) {
				return ctx.Err()
			}
		}
		*total = plusErased(*total, x)
	}
}

func plusErased(r pawl.Redaction, x *erasure) pawl.Redaction {
	sum := r
	sum.Records, sum.Entries, sum.Beside, sum.Advice = r.Records+x.done.Records, r.Entries+x.done.Entries, r.Beside+x.done.Beside, x.advice
	return sum
}

// An erasure removes what is withheld.
type erasure struct {
	e      *Engine
	job    *pawl.Job
	by     *audit.Withheld
	left   []store.Redaction
	from   store.RedactPlace
	held   time.Time
	done   store.Redacted // in total
	advice string
}

// beginErasure returns nil if nothing is left to do.
func (e *Engine) beginErasure(ctx context.Context, job rowkey.Job) (*erasure, error) {
	j, err := e.store.Job(ctx, job)
	if isNotFound(err) || err == nil && (j.Mark != pawl.Attention || !lifecycle.Job.Ended(j.State)) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if by, err := e.neededBy(ctx, j); err != nil || by != nil { // another job has just begun to continue it
		return nil, orNeeded(j, by, err)
	}
	x := &erasure{e: e, job: j}
	if err := x.hold(ctx); err != nil {
		return nil, err
	}
	err = x.name(ctx)
	if err == nil {
		err = x.plan(ctx)
	}
	return x, err
}

func isNotFound(err error) bool { return errors.Is(err, store.ErrNotFound) }

// hold puts the mark of the job off, at most once per eraseAgain.
func (x *erasure) hold(ctx context.Context) error {
	if time.Since(x.held) < eraseAgain {
		return nil
	}
	x.held = time.Now()
	return x.e.committer.one(ctx, &marking{job: x.job.Key(), do: hold})
}

// A marking changes the mark of a job that has ended.
type marking struct {
	job rowkey.Job
	do  func(*tx, *pawl.Job)
}

func (m *marking) query(q *store.Query) { q.Jobs = append(q.Jobs, m.job) }

func (m *marking) decide(t *tx) error {
	if j := t.job(m.job); j != nil && j.Mark == pawl.Attention && lifecycle.Job.Ended(j.State) {
		m.do(t, j)
		t.jobs[m.job].dirty = true
	}
	return nil
}

// own calls f with the entries of the trail of the job.
func (x *erasure) own(ctx context.Context, f func(*audit.Entry) error) error {
	return trail.EachEntry(ctx, x.e.store, store.JobEntity(x.job.Key()), f)
}

// plan lists what to erase.
func (x *erasure) plan(ctx context.Context) (err error) {
	if x.by, err = trail.WithheldOf(ctx, x.e.store, x.job.Key()); err != nil {
		return err
	}
	entry := func(ord pawl.Ord, e *audit.Entry) bool {
		e.Entity = x.id(ord)
		return x.by.Take(int64(ord), e)
	}
	r := store.Redaction{Job: x.job.Key(), Entry: entry}
	if x.by.Job() {
		r.To = math.MaxInt64
		x.left = []store.Redaction{r}
		return nil
	}
	err = x.own(ctx, func(e *audit.Entry) error {
		r.Error = r.Error || (e.SealOf(audit.FieldError) != nil || e.Version == 0) && x.by.Names(e)
		return nil
	})
	for _, n := range x.by.Nodes() {
		r.From, r.To = nodeRange(n)
		x.left = append(x.left, r)
	}
	return err
}

// nodeRange returns the first and the last ord of a step and its instances.
func nodeRange(n int64) (from, to pawl.Ord) {
	return pawl.MakeOrd(int(n), 0), pawl.MakeOrd(int(n)+1, 0) - 1
}

func (x *erasure) id(ord pawl.Ord) string {
	if ord == 0 {
		return x.job.ID.Public(pawl.JobPrefix)
	}
	return x.job.ID.Step(ord).Public(pawl.StepPrefix)
}

// step erases one bounded part, and reports whether there is more.
func (x *erasure) step(ctx context.Context) (more bool, err error) {
	if err := x.hold(ctx); err != nil {
		return false, err
	}
	if len(x.left) == 0 {
		return false, x.end(ctx)
	}
	d, err := x.e.store.Redact(ctx, &x.left[0], x.from)
	if err != nil {
		return false, err
	}
	x.done.Records, x.done.Entries, x.done.Beside = x.done.Records+d.Records, x.done.Entries+d.Entries, x.done.Beside+d.Beside
	if x.from = d.Next; d.Done {
		x.left, x.from = x.left[1:], store.RedactPlace{}
	}
	return true, nil
}

// end clears the mark, unless more is withheld by now.
func (x *erasure) end(ctx context.Context) (err error) {
	if x.advice, err = x.e.store.Scrub(ctx, x.job.Key()); err != nil {
		return err
	}
	return x.e.committer.one(ctx, &marking{job: x.job.Key(), do: func(t *tx, j *pawl.Job) {
		if j.MarkNow(); j.Seq == x.by.Seq {
			j.Mark = pawl.Clear
		}
	}})
}

// name adds to the trail of the job the names of entries that no scope covers: entries of
// version 1, whose hash covers their payload too, and, if a step is redacted, those entries
// of the job that hold the step's failure or the data of its signals.
func (x *erasure) name(ctx context.Context) error {
	n := &naming{erasure: x, by: &audit.Withheld{}, taken: make(map[int64]bool)}
	if err := x.own(ctx, n.begin); err != nil {
		return err
	}
	if err := n.look(ctx); err != nil {
		return err
	}
	err := x.own(ctx, func(e *audit.Entry) error {
		if e.Sequence > n.by.Seq { // added in the meantime, usually by commit
			return nil
		}
		return n.add(ctx, 0, e)
	})
	if err == nil && n.old {
		err = x.e.store.Trails(ctx, x.job.Key(), func(t store.TrailOf) error { return n.step(ctx, &t) })
	}
	if err != nil {
		return err
	}
	return n.commit(ctx)
}

// A naming collects the entries to name.
type naming struct {
	*erasure
	by     *audit.Withheld
	note   decide.Note
	taken  map[int64]bool // signals that redacted steps have taken
	failed bool           // the error of the job is that of a redacted step
	list   []audit.Named
	old    bool       // the trails are of version 1
	prev   audit.Hash // of the previous entry
}

// begin reads what is withheld from the trail of the job.
func (n *naming) begin(e *audit.Entry) error {
	n.by.Note(e)
	n.old = n.old || e.Sequence == 1 && e.Version != audit.Version2
	if e.Event == lifecycle.JobRedact {
		n.note = decide.Note{Actor: e.Actor, Reason: e.Reason}
	}
	return nil
}

// step adds the entries of a redacted step.
func (n *naming) step(ctx context.Context, t *store.TrailOf) error {
	if t.Ord == 0 || !n.by.Step(int64(t.Ord)) {
		return nil
	}
	for i := range t.Entries {
		if err := n.add(ctx, t.Ord, &t.Entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// look finds the signals and the error of the job that belong to redacted steps.
func (n *naming) look(ctx context.Context) error {
	if n.by.Job() {
		return nil
	}
	def, err := n.e.defs.Get(ctx, n.job.Definition)
	if err != nil {
		return err
	}
	for _, node := range n.by.Nodes() {
		from, to := nodeRange(node)
		seqs, err := n.e.store.Taken(ctx, n.job.Key(), from, to)
		if err != nil {
			return err
		}
		for _, seq := range seqs {
			n.taken[seq] = true
		}
		if f := n.job.Error; f != nil && int(node) <= len(def.Nodes) {
			id := def.Node(int(node)).ID
			n.failed = n.failed || f.Step == id || strings.HasPrefix(f.Step, id+"[")
		}
	}
	return nil
}

// add adds the next entry of a trail if it has to be named.
func (n *naming) add(ctx context.Context, ord pawl.Ord, e *audit.Entry) error {
	prev := n.prev
	if n.prev = e.Hash; e.Sequence == 1 {
		prev = audit.Hash{}
	}
	if !n.wants(ord, e) || n.by.Names(e) {
		return nil
	}
	n.list = append(n.list, e.Name(prev))
	if len(n.list) < audit.MaxNamed {
		return nil
	}
	return n.commit(ctx)
}

// failing holds the moves of a job whose reason was the text of its error in version 1.
var failing = map[machine.Event]bool{lifecycle.JobHalt: true, lifecycle.JobError: true, lifecycle.JobCancel: true}

func (n *naming) wants(ord pawl.Ord, e *audit.Entry) bool {
	switch {
	case ord != 0 || n.by.Job():
		return e.HoldsPayload()
	case e.Version != audit.Version2:
		return n.taken[e.Sequence] && e.HoldsPayload() || n.failed && failing[e.Event] && e.HoldsPayload()
	}
	return n.taken[e.Sequence] || n.failed && (e.SealOf(audit.FieldError) != nil || e.SealOf(audit.FieldFailure) != nil)
}

// commit names the collected entries.
func (n *naming) commit(ctx context.Context) error {
	if len(n.list) == 0 {
		return nil
	}
	scope := audit.Scope{Entries: n.list}
	n.list = nil
	return n.e.committer.one(ctx, &redact{id: n.job.ID, scope: scope, note: n.note})
}

// erasures are those that evaluators have begun and not completed.
type erasures struct {
	mu sync.Mutex
	of map[rowkey.Job]*erasure
}

func (s *erasures) take(job rowkey.Job) *erasure {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.of[job]
	delete(s.of, job)
	return x
}

func (s *erasures) put(job rowkey.Job, x *erasure) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = make(map[rowkey.Job]*erasure)
	}
	s.of[job] = x
}

// erase continues the redaction of a job for up to eraseTurn.
func (v *evaluator) erase(ctx context.Context, job rowkey.Job) error {
	x := v.e.erasures.take(job)
	if x == nil {
		var err error
		if x, err = v.e.beginErasure(ctx, job); x == nil || err != nil {
			return err
		}
	}
	for begun := time.Now(); time.Since(begun) < eraseTurn; {
		if more, err := x.step(ctx); !more || err != nil {
			return err
		}
	}
	v.e.erasures.put(job, x)
	v.request(job)
	return nil
}
