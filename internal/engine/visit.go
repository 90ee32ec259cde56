package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A visit is the exchange of a remote worker, apart from its reports: it takes the turn,
// compares what the worker holds with what it knows, and claims.
type visit struct {
	claim
	speaker
	slots   int // that the worker has free
	holding map[link.Stop]bool

	state machine.State
	again []link.Assignment // held, and unknown to the worker
	known map[link.Stop]bool
	stops []link.Stop
}

func (v *visit) prepare(ctx context.Context) error {
	if v.slots == 0 {
		v.quotas = new(quota.Limits)
		return nil
	}
	return v.claim.prepare(ctx)
}

func (v *visit) query(q *store.Query) {
	q.Turns = append(q.Turns, v.of)
	if v.compares {
		q.Held = append(q.Held, v.of)
	}
	if v.free = v.slots; v.free > 0 {
		v.claim.query(q)
	} else {
		q.Workers = append(q.Workers, v.of)
	}
}

func (v *visit) decide(t *tx) error {
	v.state, v.assigned, v.again, v.known, v.stops = "", v.assigned[:0], nil, nil, nil
	err := v.speaker.take(t)
	w := t.worker(v.of)
	switch {
	case err != nil:
	case w == nil || lifecycle.Worker.Ended(w.State):
		err = link.ErrWorkerEnded
	case v.compares:
		err = v.compare(t)
	}
	v.free = max(v.slots-len(v.again), 0)
	if err != nil || v.free == 0 || v.repeated {
		if v.slots > 0 {
			t.claims++ // what was found for it stays where it is
		}
		v.free = 0
	} else {
		err = v.claim.decide(t)
	}
	if w != nil {
		v.state = w.State
	}
	return err
}

// compare finds what the worker holds and does not know of. Among that is what another of its
// exchanges has claimed in this transaction, whose answer may be lost. The reports of the same
// commit are decided by now.
func (v *visit) compare(t *tx) error {
	v.known = make(map[link.Stop]bool)
	var held []pawl.StepKey
	for k, h := range t.steps {
		if h.record.State == lifecycle.StepInProgress && h.record.Worker == v.of {
			held = append(held, k)
		}
	}
	slices.SortFunc(held, pawl.StepKey.Compare)
	for _, k := range held {
		s := t.step(k)
		c := link.Stop{StepKey: k, Claim: s.Claims}
		if v.holding[c] {
			v.known[c] = true
			if s.DueEvent == lifecycle.StepCancel {
				v.stops = append(v.stops, c)
			}
			continue
		}
		j := t.job(k.Job)
		if j == nil {
			continue
		}
		def, err := t.definition(j.Definition)
		var n *need
		if errors.As(err, &n) {
			return err
		}
		if err != nil {
			v.e.log.Error("a step cannot be delivered again", "step", k.String(), "error", err)
			continue
		}
		v.again = append(v.again, assignment(s, v.e.jobs.put(j, def), def))
	}
	return nil
}

// gone returns the claims that the worker no longer has.
func (v *visit) gone() (gone []link.Stop) {
	for c := range v.holding {
		if !v.known[c] {
			gone = append(gone, c)
		}
	}
	return gone
}

// Times of a visit that waits for work.
const (
	visitAgain = 5 * time.Second       // between two claims that no hint has caused
	visitDoubt = 25 * time.Millisecond // after a claim that has passed over something
)

// Visit reports, compares and claims in one commit (T3, T5). If there is nothing to return it
// waits for work, and claims again in commits that no later exchange of the worker has
// overtaken.
func (e *Engine) Visit(ctx context.Context, in link.Visit) (*link.Visited, error) {
	g, err := e.guests.guest(ctx, e.store, in.Worker)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := e.guests.begin(g)
	defer e.guests.end(p)
	v := &visit{claim: claim{e: e, worker: g.worker, queued: g.share(in.Free)}, slots: in.Free,
		speaker: speaker{of: g.worker.Key(), number: in.Turn, compares: in.Compare}}
	if in.Compare {
		v.holding = make(map[link.Stop]bool, len(in.Holding))
		for _, c := range in.Holding {
			v.holding[c] = true
		}
	}
	out := new(link.Visited)
	if err := e.firstVisit(ctx, v, in.Reports, out); err != nil {
		e.guests.failed(g, err)
		return nil, err
	}
	if in.Wait > 0 && in.Free > 0 && !v.repeated && len(v.again)+len(v.assigned)+len(out.Reported)+len(out.Gone)+len(out.Stops) == 0 {
		if err := e.await(ctx, v, p, in.Wait); err != nil {
			e.guests.failed(g, err)
			return nil, err
		}
	}
	if out.State, out.Assigned, out.Again = v.state, v.assigned, len(v.again); out.Again > 0 {
		out.Assigned = append(v.again, v.assigned...)
	}
	g.claimed(len(v.assigned))
	if len(v.assigned) > 0 && len(v.assigned) == v.free || v.more {
		e.guests.ring(g.routes) // there may be more, for another worker
	}
	return out, nil
}

// firstVisit commits the reports and takes the turn. An exchange that turns out to be
// repeated is committed again, and then compares.
func (e *Engine) firstVisit(ctx context.Context, v *visit, reports []link.Report, out *link.Visited) error {
	if err := v.prepare(ctx); err != nil {
		return &link.CommitError{Err: err}
	}
	commit := context.WithoutCancel(ctx) // so that this goroutine commits
	cmds, stored := e.reportsOf(reports)
	errs, err := e.committer.do(commit, append(cmds, v)...)
	if err != nil {
		return err
	}
	if out.Reported, err = e.reported(commit, stored, errs); err != nil {
		return err
	}
	err = errs[len(errs)-1]
	if errors.Is(err, errRepeated) {
		v.compares = true
		err = e.committer.one(commit, v)
	}
	if err != nil {
		return err
	}
	v.began = true
	out.Stops = v.stops
	if v.compares {
		out.Gone = v.gone()
	}
	v.compares = false
	return nil
}

// await claims again whenever there may be work, until it has some or the time is over.
func (e *Engine) await(ctx context.Context, v *visit, p *poll, limit time.Duration) error {
	over := time.NewTimer(limit)
	defer over.Stop()
	again := time.NewTimer(v.pause())
	defer again.Stop()
	for {
		select {
		case <-p.bell:
		case <-again.C:
		case <-p.overtaken:
			return nil
		case <-over.C:
			return nil
		case <-ctx.Done():
			return nil
		}
		if err := v.prepare(ctx); err != nil || ctx.Err() != nil {
			return nil
		}
		err := e.committer.one(context.WithoutCancel(ctx), v)
		switch {
		case errors.Is(err, errOvertaken):
			return nil
		case err != nil:
			return err
		case len(v.assigned) > 0:
			return nil
		}
		again.Reset(v.pause())
	}
}

// pause returns the time until the next claim.
func (v *visit) pause() time.Duration {
	further := v.e.unreadableSteps.met(v.worker.Key(), v.unreadableSteps, v.skipped)
	if v.skipped || v.more && v.moved || further || v.passed && len(v.pools) == 0 {
		return visitDoubt
	}
	return visitAgain
}

// ReportSteps stores outcomes of a remote worker's steps (T5).
func (e *Engine) ReportSteps(ctx context.Context, reports []link.Report) ([]link.Reported, error) {
	cmds, stored := e.reportsOf(reports)
	errs, err := e.committer.do(ctx, cmds...)
	if err != nil {
		return nil, err
	}
	return e.reported(ctx, stored, errs)
}

func (e *Engine) reportsOf(reports []link.Report) (cmds []command, stored []*report) {
	cmds, stored = make([]command, len(reports), len(reports)+1), make([]*report, len(reports))
	for i := range reports {
		stored[i] = e.newReport(&reports[i])
		cmds[i] = stored[i]
	}
	return cmds, stored
}

// reported returns what became of reports that were committed. Those that the fence has
// refused are judged by the trail: only what was not reported before is a refused fact. An
// error means that some are not stored, and that all have to be sent again.
func (e *Engine) reported(ctx context.Context, stored []*report, errs []error) ([]link.Reported, error) {
	results := make([]link.Reported, len(stored))
	for i, r := range stored {
		results[i] = link.Reported{Result: link.Accepted, Current: r.current}
		switch {
		case link.Retryable(errs[i]):
			return nil, errs[i]
		case errs[i] != nil:
			if pawl.KindOf(errs[i]) != pawl.NotFound {
				e.log.Error("a report was not accepted", "step", r.r.Step.String(), "error", errs[i])
			}
			results[i].Result = link.Stale
		case r.late:
			result, err := e.judgeLate(ctx, r)
			if err != nil {
				return nil, &link.CommitError{Err: err}
			}
			results[i].Result = result
		case r.taken:
			e.jobs.putOutput(r.r.Step, r.r.Output)
		}
	}
	return results, nil
}

func (e *Engine) judgeLate(ctx context.Context, r *report) (link.Result, error) {
	before, err := e.reportedBefore(ctx, r.r)
	switch {
	case err != nil:
		return "", err
	case before:
		return link.Duplicate, nil
	}
	r.judged = true
	return link.Stale, e.committer.one(ctx, r)
}
