package engine

import (
	"context"
	"errors"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/schedule"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// schedules processes some of the schedules that have no next time, or have a time that
// waits for their last job.
func (s *sweeper) schedules(ctx context.Context) error {
	keys, err := s.e.store.HeldSchedules(ctx, s.held, sweepPage)
	if err != nil {
		return err
	}
	s.held = 0
	if len(keys) == sweepPage {
		s.held = keys[sweepPage-1]
	}
	for _, key := range keys {
		err := s.schedule(ctx, key)
		if unavailable(err) != nil {
			return err
		}
		if err != nil {
			s.e.log.Warn("a schedule could not be looked at for waits whose cause has ended", "schedule", key, "error", err)
		}
	}
	return nil
}

// schedule continues a schedule that is stalled.
func (s *sweeper) schedule(ctx context.Context, key rowkey.Schedule) error {
	seen, err := s.e.store.Schedule(ctx, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil || schedule.Stalled(seen, s.e.cfg.Clock().UnixMicro(), false) == "" {
		return err
	}
	m := &mendSchedule{seen: seen}
	if m.cron, err = schedule.Parse(seen.Cron, seen.TimeZone); err != nil {
		return err
	}
	if err := s.e.committer.one(ctx, m); err != nil || m.found == "" {
		return err
	}
	s.found.Add(1)
	s.e.log.Warn("a wait whose cause has ended was not marked; it goes on now", "schedule", seen.Name, "cause", string(m.found))
	return nil
}

// A mendSchedule gives a stalled schedule the first time after its last entry: every time
// passed over since then would have an entry. Times that are due by now are left to the
// schedule's tick.
type mendSchedule struct {
	seen  *pawl.Schedule
	cron  *schedule.Cron
	found schedule.Stall
}

func (m *mendSchedule) query(q *store.Query) {
	q.Schedules = append(q.Schedules, m.seen.Key())
	if m.seen.LastJob != 0 {
		q.Jobs = append(q.Jobs, m.seen.LastJob)
	}
}

func (m *mendSchedule) decide(t *tx) error {
	m.found = "" // reset the result of an earlier try
	s := t.schedule(m.seen.Key())
	if s == nil || s.Seq != m.seen.Seq || s.LastJob != m.seen.LastJob {
		return nil
	}
	running := false
	if s.LastJob != 0 {
		last := t.job(s.LastJob)
		running = last != nil && !lifecycle.Job.Ended(last.State)
	}
	m.found = schedule.Stalled(s, t.now, running)
	if m.found != "" {
		arm(s, m.cron, s.UpdatedAt)
		t.schedules[s.Key()].dirty = true // there is no event for this, and no audit row
	}
	return nil
}
