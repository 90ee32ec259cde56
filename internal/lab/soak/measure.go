package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Statistics are the server's counts so far.
type statistics struct {
	ended        int   // jobs
	scans, reads int64 // of the indexes of job and step: scans, and entries that they passed
	blocks       int64 // of those indexes and tables, that were read
	dead         int64 // rows of job and step
	indexes      map[string]index
}

// An index holds the counts of one index.
type index struct{ scans, reads int64 }

// statistics reads the counts, including those that sessions have not yet reported: a session
// reports at most a second after the last time.
func (s *soaker) statistics(ctx context.Context) (statistics, error) {
	var x statistics
	err := s.watch.QueryRow(ctx, `select
  (select sum(idx_scan) from pg_stat_user_indexes where relname in ('job', 'step')),
  (select sum(idx_tup_read) from pg_stat_user_indexes where relname in ('job', 'step')),
  (select sum(heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read) from pg_statio_user_tables where relname in ('job', 'step')),
  (select sum(n_dead_tup) from pg_stat_user_tables where relname in ('job', 'step'))`).Scan(&x.scans, &x.reads, &x.blocks, &x.dead)
	if err != nil {
		return x, err
	}
	rows, err := s.watch.Query(ctx, "select indexrelname, idx_scan, idx_tup_read from pg_stat_user_indexes where relname in ('job', 'step')")
	if err != nil {
		return x, err
	}
	x.indexes = map[string]index{}
	var name string
	var i index
	_, err = pgx.ForEachRow(rows, []any{&name, &i.scans, &i.reads}, func() error { x.indexes[name] = i; return nil })
	s.mu.Lock()
	defer s.mu.Unlock()
	x.ended = s.ended
	return x, err
}

// A window is an eighth of a run.
type window struct {
	jobs     int
	p50, p99 time.Duration
	entries  float64  // of indexes, passed by a scan, on average
	blocks   float64  // read for a scan, on average
	dead     int64    // rows at its end
	worst    []string // the indexes with the most entries passed by a scan
}

const head = "JOBS    P50 MS    P99 MS    ENTRIES/SCAN  BLOCKS/SCAN  DEAD ROWS"

func (w window) String() string {
	return fmt.Sprintf("%-7d %-9.1f %-9.1f %-13.1f %-12.1f %d", w.jobs, millis(w.p50), millis(w.p99), w.entries, w.blocks, w.dead)
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// window returns the measurements since the previous window.
func (s *soaker) window(before, after statistics) window {
	s.mu.Lock()
	lags := s.lags
	s.lags = nil
	s.mu.Unlock()
	slices.Sort(lags)
	at := func(q float64) time.Duration {
		if len(lags) == 0 {
			return 0
		}
		return lags[int(q*float64(len(lags)-1))]
	}
	scans := float64(max(after.scans-before.scans, 1))
	return window{
		worst: worst(before.indexes, after.indexes),
		jobs:  after.ended - before.ended, p50: at(0.5), p99: at(0.99), dead: after.dead,
		entries: float64(after.reads-before.reads) / scans, blocks: float64(after.blocks-before.blocks) / scans,
	}
}

// worst returns the indexes whose scans passed the most entries, and how many.
func worst(before, after map[string]index) []string {
	type walk struct {
		name    string
		entries float64
	}
	var walks []walk
	for name, a := range after {
		b := before[name]
		if scans := a.scans - b.scans; scans > 0 {
			walks = append(walks, walk{name, float64(a.reads-b.reads) / float64(scans)})
		}
	}
	slices.SortFunc(walks, func(a, b walk) int { return cmp.Compare(b.entries, a.entries) })
	var names []string
	for _, w := range walks[:min(len(walks), 5)] {
		names = append(names, fmt.Sprintf("%s %.0f", w.name, w.entries))
	}
	return names
}

// A result is a whole run.
type result struct {
	windows []window
	ended   int    // jobs, in all
	left    int64  // dead rows after the reader ended, and a vacuum
	after   window // a little load after that
}

// vacuumed vacuums after the old snapshot is closed, and submits a little more load: the costs
// must be as at the beginning.
func (s *soaker) vacuumed(ctx context.Context, r *result) error {
	if _, err := s.watch.Exec(ctx, "vacuum job, step", pgx.QueryExecModeSimpleProtocol); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	before, err := s.statistics(ctx)
	if err != nil {
		return err
	}
	r.left = before.dead
	s.mu.Lock()
	s.lags = nil
	s.mu.Unlock()
	if err := s.offer(ctx, time.Now(), 0, max(s.jobs()/windows, 1)); err != nil {
		return err
	}
	if err := s.settled(ctx); err != nil {
		return err
	}
	after, err := s.statistics(ctx)
	r.after, r.ended = s.window(before, after), after.ended
	fmt.Fprintf(s.report, "%s  after the reader went and a vacuum, which left %d\n", r.after, r.left)
	return err
}

// Bounds of growth between the first and the last quarter.
const (
	growth      = 2   // times
	slack       = 8.0 // entries or blocks of a scan
	slackOfTime = 10 * time.Millisecond
	unswept     = 500 // dead rows that a vacuum may leave, from work in progress
)

// faults returns the counts that were not flat: the last quarter compared with the second. The
// first has hardly any dead rows; between the other two their number more than doubles.
func (r *result) faults() []string {
	var faults []string
	first, last := r.quarter(2), r.quarter(windows-2)
	for _, x := range []struct {
		what        string
		first, last float64
	}{{"index entries walked over by a scan", first.entries, last.entries}, {"blocks looked at for a scan", first.blocks, last.blocks},
		{"index entries walked over by a scan, after the vacuum", first.entries, r.after.entries}} {
		if x.last > growth*x.first+slack {
			faults = append(faults, fmt.Sprintf("%s: %.1f in the second quarter, %.1f then", x.what, x.first, x.last))
		}
	}
	if r.left > unswept {
		faults = append(faults, fmt.Sprintf("dead rows after the reader went and a vacuum: %d, want %d at most", r.left, unswept))
	}
	return faults
}

// slower reports whether latency kept growing. Other load on the machine may be the cause, so
// that people judge it, and no test.
func (r *result) slower() []string {
	first, last := r.quarter(2).p99, r.quarter(windows-2).p99
	if last <= growth*first+slackOfTime {
		return nil
	}
	return []string{fmt.Sprintf("p99: %.1f ms in the second quarter, %.1f ms then; if others kept this machine busy, run it again", millis(first), millis(last))}
}

// quarter returns the mean of two windows, and the better p99 of the two.
func (r *result) quarter(from int) window {
	a, b := r.windows[from], r.windows[from+1]
	return window{entries: (a.entries + b.entries) / 2, blocks: (a.blocks + b.blocks) / 2, p99: min(a.p99, b.p99)}
}
