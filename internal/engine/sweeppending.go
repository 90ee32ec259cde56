package engine

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/store"
)

// sweepKeys is how many keys of jobs are gone through in a minute for those that are
// pending and that nobody would come across.
const sweepKeys = 2000

// pending goes through some of the jobs that are to be started. A job without a route is
// found by every look, and one with a route by the claims of those who serve it, whatever
// slots it waits for: so only one that is in neither queue is lost.
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

// unqueued starts a pending job that stands in no queue, or not in that of its first
// steps. One that cannot be started yet is tried again in the next round.
func (s *sweeper) unqueued(ctx context.Context, u *store.Unstarted) error {
	if !u.Lost {
		if u.Route == 0 {
			return nil
		}
		def, err := s.e.defs.get(ctx, u.Definition)
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
