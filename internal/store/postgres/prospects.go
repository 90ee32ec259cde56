package postgres

import (
	"context"

	"github.com/pawl-dev/pawl"
)

const surveyJobs = `select day, count(*) filter (where old and not needed), count(*) filter (where open),
  count(*) filter (where old and needed), count(*) filter (where not old and not open)
from (select (id >> 32) / 86400 as day, ` + jobsOpen + ` as open, not ` + jobsOpen + ` and updated_at < $1 as old, ` + needed + ` as needed
  from job o where id < $2) j group by day order by day`

// Prospects says what would be removed; see store.Retention.
func (db *DB) Prospects(ctx context.Context, before int64) ([]pawl.Prospect, error) {
	until := pawl.KeyAt(pawl.Time(before))
	jobs := pawl.Prospect{Kind: kindJob}
	err := db.query(ctx, "count what has ended", surveyJobs, func(c *cursor) {
		end := (c.num() + 1) * 86400 << 32 // the first key of the day after
		free, open, needed, young := c.num(), c.num(), c.num(), c.num()
		jobs.Open, jobs.Needed = jobs.Open+open, jobs.Needed+needed
		if end <= until && open+needed+young == 0 {
			jobs.Goes += free
		} else {
			jobs.Beside += free
		}
	}, before, until+1<<32)
	list := []pawl.Prospect{jobs}
	for _, kind := range []string{kindWorker, kindSchedule, kindToken, kindPause, kindWebhook} {
		if err != nil {
			return nil, err
		}
		o := pawl.Prospect{Kind: kind}
		err = db.query(ctx, "count what has ended", "select count(*) filter (where "+endedLong[kind]+"), count(*) filter (where state <> all($2)) from "+kind+" o where id < $3",
			func(c *cursor) { o.Goes, o.Open = c.num(), c.num() }, before, longEnds[kind], until+1<<32)
		list = append(list, o)
	}
	return list, err
}
