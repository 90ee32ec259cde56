package engine

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// sweepKeys is how many keys of jobs are checked per minute for pending jobs that no scan
// or claim would find.
const sweepKeys = 2000

// pending processes some of the jobs that should be started. Every scan finds a job without
// a route, and the claims of workers that serve a route find the jobs with it, even if
// these wait for slots. So only a job in neither queue is lost.
func (s *sweeper) pending(ctx context.Context) error {
	page, last, err := s.e.store.Unstarted(ctx, s.unstarted, sweepKeys)
	if err != nil {
		return err
	}
	for i := range page {
		if err := s.unqueued(ctx, &page[i]); unavailable(err) != nil {
			return err
		} else if err != nil {
			s.faulty(page[i].Job, err)
		}
	}
	s.unstarted = last
	return nil
}

// unqueued starts a pending job that is in no queue, or not in that of its first steps. A
// job that cannot be started yet is tried again in the next round.
func (s *sweeper) unqueued(ctx context.Context, u *store.Unstarted) error {
	if !u.Lost {
		if u.Route == 0 {
			return nil
		}
		def, err := s.e.defs.Get(ctx, u.Definition)
		if err != nil || u.Route == firstRoute(def, u.Job) {
			return err
		}
	}
	started, err := s.e.evaluator.startJob(ctx, u.Key())
	if err != nil || !started {
		return err
	}
	s.found.Add(1)
	s.e.log.Warn("a pending job was in no queue that anybody looks at; it is started now", "job", u.ID.Public(pawl.JobPrefix))
	return nil
}
