package engine

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// The sweep covers everything that runs, and searches for waits whose cause has ended
// without a mark (decide.Stall), for stalled schedules (schedule.Stall) and for jobs that
// should be started (sweeppending.go). There are none unless a program has a defect or the
// database was changed by hand. So it is slow: it reads 500 rows a minute, by key. Servers
// begin at different places, and repeat.

// The pace of a sweep.
const (
	sweepEvery = time.Minute
	sweepRows  = 500 // rows read per interval: jobs, steps, and what steps wait for
	sweepPage  = 50  // jobs read at once
	childRows  = 3   // rows per step that waits for a child job: itself, its wait, and the child
)

// A sweeper is a sweep in progress.
type sweeper struct {
	e     *Engine
	begun bool
	at    store.Spot      // everything up to here is done
	job   rowkey.Job      // the job after that, if it is done in part
	ord   pawl.Ord        // the last of its steps that is done
	held  rowkey.Schedule // the last schedule that is done

	unstarted rowkey.Job // jobs to be started up to here are done
	found     atomic.Uint64
}

// run sweeps until ctx ends.
func (s *sweeper) run(ctx context.Context, r *rounds) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r.begin()
		_, err := s.step(ctx)
		if err == nil {
			err = errors.Join(s.schedules(ctx), s.pending(ctx))
		}
		r.end(ctx, err)
		if err != nil && ctx.Err() == nil {
			s.e.log.Warn("looking for waits whose cause has ended failed; it is tried again", "error", err)
		}
	}
}

// progress returns the progress of the part.
func (s *sweeper) progress(all []*rounds) Progress {
	p := seen(all)
	p.Found = s.found.Load()
	return p
}

// step processes as many rows as are allowed per minute, or as there are until the end of
// what runs; the next step then starts again from the beginning. It returns the number of
// rows read.
func (s *sweeper) step(ctx context.Context) (rows int, err error) {
	if !s.begun {
		if s.at, err = s.e.store.SpotAt(ctx, startOf(s.e.cfg.Node.ID)); err != nil {
			return 0, err
		}
		s.begun = true
	}
	seen := make(map[rowkey.Job]bool)
	for rows < sweepRows {
		limit := min(sweepPage, sweepRows-rows)
		page, err := s.e.store.Running(ctx, s.at, limit)
		if err != nil {
			return rows, err
		}
		rows += len(page)
		for _, p := range page {
			if p.Job != nil && !seen[p.Job.Key()] {
				seen[p.Job.Key()] = true
				read, done, err := s.through(ctx, p.Job, sweepRows-rows)
				if rows += read; err != nil || !done {
					return rows, err
				}
			}
			s.at, s.job = p.At, 0
		}
		if len(page) < limit {
			s.at = store.Spot{}
			return rows, nil
		}
	}
	return rows, nil
}

// startOf returns where a process begins, as a share of all records, by its identity;
// consecutive identities begin far apart.
func startOf(node int64) float64 {
	if node == 0 {
		node = int64(random())
	}
	return float64(uint64(node)*0x9E3779B97F4A7C15>>11) / (1 << 53)
}

// through processes at most limit rows of a job, and reports whether these were the last
// ones.
func (s *sweeper) through(ctx context.Context, j *pawl.Job, limit int) (rows int, done bool, err error) {
	if s.job != j.Key() {
		s.job, s.ord = j.Key(), 0
	}
	def, err := s.e.defs.Get(ctx, j.Definition)
	if err != nil {
		return 0, s.faulty(j, err), unavailable(err)
	}
	m := &mend{e: s.e, job: s.e.jobs.put(j, def), seen: j}
	if def.Events {
		if limit < store.MaxSignals {
			return 0, false, nil
		}
		if rows, err = m.signals(ctx); err != nil {
			return rows, false, err
		}
	}
	for !done && limit-rows >= childRows {
		n := (limit - rows) / childRows
		steps, err := s.e.store.Bare(ctx, s.job, s.ord, n)
		if err != nil {
			return rows, false, err
		}
		read, err := m.suspect(ctx, steps)
		if rows += len(steps) + read; err != nil {
			return rows, false, err
		}
		if done = len(steps) < n; len(steps) > 0 {
			s.ord = steps[len(steps)-1].Ord
		}
	}
	if err := s.mend(ctx, m); err != nil {
		return rows, done && s.faulty(j, err), unavailable(err)
	}
	return rows, done, nil
}

// faulty reports whether an error is the fault of the job, and logs it if so.
func (s *sweeper) faulty(j *pawl.Job, err error) bool {
	if unavailable(err) != nil {
		return false
	}
	s.e.log.Warn("a job could not be looked at for waits whose cause has ended", "job", j.ID.Public(pawl.JobPrefix), "error", err)
	return true
}

// unavailable returns the error unless it is the fault of the record being read.
func unavailable(err error) error {
	if pawl.KindOf(err) == pawl.Unavailable {
		return err
	}
	return nil
}

// mend continues what is stalled, and reports it.
func (s *sweeper) mend(ctx context.Context, m *mend) error {
	if len(m.steps) == 0 && decide.StalledJob(m.seen) == "" {
		return nil
	}
	if err := s.e.committer.one(ctx, m); err != nil {
		return err
	}
	s.found.Add(uint64(len(m.found)))
	for _, ord := range slices.Sorted(maps.Keys(m.found)) {
		args := []any{"job", m.job.id.Public(pawl.JobPrefix), "cause", string(m.found[ord])}
		if ord != 0 {
			args = append(args, "step", m.job.def.Key(ord))
		}
		s.e.log.Warn("a wait whose cause has ended was not marked; it goes on now", args...)
	}
	return nil
}

// A mend continues what is stalled in a job. It checks the suspects again, with everything
// in sight at one moment.
type mend struct {
	e        *Engine
	job      *jobFacts
	seen     *pawl.Job
	told     map[string]bool         // the names of untaken signals
	steps    []pawl.Ord              // suspects
	children map[pawl.Ord]rowkey.Job // the child jobs of the suspects

	found map[pawl.Ord]decide.Stall
}

func (m *mend) signals(ctx context.Context) (rows int, err error) {
	signals, err := m.e.store.Signals(ctx, m.seen.Key())
	m.told = make(map[string]bool, len(signals))
	for _, g := range signals {
		m.told[g.Name] = true
	}
	return len(signals), err
}

// suspect collects the steps that seem to be stalled, and returns how many other rows it
// has read.
func (m *mend) suspect(ctx context.Context, steps []*pawl.Step) (rows int, err error) {
	var waiting []pawl.StepKey
	for _, s := range steps {
		if decide.StalledStep(m.job.def, m.seen, s, m.told[m.job.def.Node(s.Ord.Node()).Event]) != "" {
			m.steps = append(m.steps, s.Ord)
		} else if s.Mark == pawl.Clear && decide.Awaits(m.job.def, s) == workflow.KindWorkflow {
			waiting = append(waiting, s.StepKey)
		}
	}
	if len(waiting) == 0 {
		return 0, nil
	}
	bodies, err := m.e.store.Bodies(ctx, waiting)
	if err != nil {
		return 0, err
	}
	of, keys := make(map[rowkey.Job]pawl.Ord, len(bodies)), make([]rowkey.Job, 0, len(bodies))
	for k, s := range bodies {
		var w pawl.Wait
		if json.Unmarshal(s.Input, &w) != nil {
			continue // the evaluator reports it when the child has ended
		}
		if id, err := pawl.ParseID(pawl.JobPrefix, w.Job); err == nil {
			of[id.JobKey()], keys = k.Ord, append(keys, id.JobKey())
		}
	}
	children, err := m.e.store.Jobs(ctx, store.JobFilter{Keys: keys, Bare: true})
	for _, c := range children {
		if lifecycle.Job.Ended(c.State) {
			m.await(of[c.Key()], c.Key())
		}
	}
	return len(bodies) + len(children), err
}

// await adds a step to the suspects if its child job has ended.
func (m *mend) await(ord pawl.Ord, child rowkey.Job) {
	if m.children == nil {
		m.children = make(map[pawl.Ord]rowkey.Job)
	}
	m.steps, m.children[ord] = append(m.steps, ord), child
}

func (m *mend) query(q *store.Query) {
	m.job.ask(q, decide.MendReads(m.job.def, m.steps, m.job.slots))
	for _, child := range m.children {
		q.Jobs = append(q.Jobs, child)
	}
}

func (m *mend) decide(t *tx) error {
	m.found = nil // reset the result of an earlier try
	if t.job(m.seen.Key()) == nil || m.e.outdated(t, m.seen.Key(), m.job) {
		return nil
	}
	d, err := m.e.decision(t, m.seen.Key(), decide.Answers{})
	if err != nil {
		return err
	}
	ended := make(map[pawl.Ord]bool, len(m.children))
	for ord, key := range m.children {
		child := t.job(key)
		ended[ord] = child != nil && lifecycle.Job.Ended(child.State)
	}
	m.found, err = d.Mend(m.steps, ended)
	return err
}
