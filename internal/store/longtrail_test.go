package store

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
)

// A growingJob is a job whose steps move while its trail is read.
type growingJob struct {
	rnd     *rand.Rand
	seqs    map[pawl.Ord]int64 // the records
	rows    map[TrailRow][]TrailRow
	perPage int

	asOf    map[pawl.Ord]int64 // sequences when the records were read
	waiting int                // entries that were read and not yet passed on
	most    int
}

// move adds an entry to each of the given steps, in one row of the lowest.
func (g *growingJob) move(ords ...pawl.Ord) {
	var row []TrailRow
	for _, ord := range ords {
		g.seqs[ord]++
		row = append(row, TrailRow{ord, g.seqs[ord]})
	}
	g.rows[row[0]] = row
}

// grow moves up to 5 neighbouring steps, or makes new ones.
func (g *growingJob) grow(steps int) {
	var ords []pawl.Ord
	for at := 1 + g.rnd.IntN(steps); len(ords) < 5 && at < steps+20; at += 1 + g.rnd.IntN(9) {
		ords = append(ords, pawl.Ord(at))
	}
	g.move(ords...)
}

func (g *growingJob) Records(context.Context) ([]TrailOf, error) {
	g.asOf = map[pawl.Ord]int64{}
	var list []TrailOf
	for ord, seq := range g.seqs {
		g.asOf[ord] = seq
		t := g.Without(ord)
		t.Record.Seq = seq
		list = append(list, t)
	}
	slices.SortFunc(list, func(a, b TrailOf) int { return int(a.Ord - b.Ord) })
	return list, nil
}

func (g *growingJob) Without(ord pawl.Ord) TrailOf {
	return TrailOf{EntityKey: EntityKey{StepKey: pawl.StepKey{Ord: ord}}}
}

func (g *growingJob) Rows(_ context.Context, after TrailRow, f func(pawl.Ord, audit.Entry)) (last TrailRow, more bool, err error) {
	compare := func(a, b TrailRow) int {
		if a.Ord != b.Ord {
			return int(a.Ord - b.Ord)
		}
		return int(a.Seq - b.Seq)
	}
	var leads []TrailRow
	for lead := range g.rows {
		if compare(lead, after) > 0 {
			leads = append(leads, lead)
		}
	}
	slices.SortFunc(leads, compare)
	last = after
	for _, lead := range leads[:min(len(leads), g.perPage)] {
		for _, e := range g.rows[lead] {
			f(e.Ord, audit.Entry{Sequence: e.Seq})
			g.waiting++
		}
		last = lead
	}
	g.most = max(g.most, g.waiting)
	return last, len(leads) >= g.perPage, nil
}

func (g *growingJob) Seqs(_ context.Context, ords []pawl.Ord) (map[pawl.Ord]int64, error) {
	now := map[pawl.Ord]int64{}
	for _, ord := range ords {
		if seq, ok := g.seqs[ord]; ok {
			now[ord] = seq
		}
	}
	return now, nil
}

// TestWalkOfAGrowingJob: however a job moves while its trail is read in pages, Walk returns
// the job as of the moment of its records, and holds only a few pages in memory (K6).
func TestWalkOfAGrowingJob(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		steps := 5 + rnd.IntN(400)
		g := &growingJob{rnd: rnd, seqs: map[pawl.Ord]int64{}, rows: map[TrailRow][]TrailRow{}, perPage: 2 + rnd.IntN(40)}
		g.move(0)
		for range 2 * steps {
			g.grow(steps)
		}
		got := map[pawl.Ord]int64{}
		last := pawl.Ord(-1)
		err := Walk(t.Context(), g, func(t1 TrailOf) error {
			g.waiting -= len(t1.Entries)
			for i, e := range t1.Entries {
				if e.Sequence != int64(i)+1 {
					t.Fatalf("seed %d: step %d: entry %d has sequence %d", seed, t1.Ord, i, e.Sequence)
				}
			}
			if t1.Ord <= last || t1.Record.Seq != int64(len(t1.Entries)) {
				t.Fatalf("seed %d: step %d after %d, %d entries, its record is at %d", seed, t1.Ord, last, len(t1.Entries), t1.Record.Seq)
			}
			last, got[t1.Ord] = t1.Ord, t1.Record.Seq
			if rnd.IntN(4) == 0 {
				g.grow(steps)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(g.asOf, got); diff != "" {
			t.Fatalf("seed %d: (- wanted, + handed out)\n%s", seed, diff)
		}
	}
}

// TestWalkIsBounded: for a job with 100,000 steps, Walk holds only a page in memory, and the
// entries stored in rows of earlier steps.
func TestWalkIsBounded(t *testing.T) {
	t.Parallel()
	const steps = 100_000
	l := &wideJob{steps: steps}
	n := 0
	if err := Walk(t.Context(), l, func(t TrailOf) error { n++; l.waiting -= len(t.Entries); return nil }); err != nil {
		t.Fatal(err)
	}
	if n != steps+1 || l.most > 2*widePage || l.waiting != 0 {
		t.Errorf("%d trails, %d entries in memory at once, %d not handed out; want %d, at most %d, 0", n, l.most, l.waiting, steps+1, 2*widePage)
	}
}

// A wideJob has this many steps with 6 entries each, in rows of 2 steps.
type wideJob struct{ steps, waiting, most int }

const widePage = 6000

func (w *wideJob) Records(context.Context) ([]TrailOf, error) {
	list := make([]TrailOf, w.steps+1)
	for i := range list {
		list[i].Ord, list[i].Record.Seq = pawl.Ord(i), 6
	}
	return list, nil
}

func (w *wideJob) Without(pawl.Ord) TrailOf { return TrailOf{} }

func (w *wideJob) Rows(_ context.Context, after TrailRow, f func(pawl.Ord, audit.Entry)) (last TrailRow, more bool, err error) {
	at := after
	for n := 0; n < widePage; {
		if at.Seq++; at.Ord < 0 || at.Seq > 6 {
			at = TrailRow{Ord: (at.Ord + 2) / 2 * 2, Seq: 1}
		}
		if at.Ord > pawl.Ord(w.steps) {
			return last, false, nil
		}
		for ord := at.Ord; ord < at.Ord+2 && ord <= pawl.Ord(w.steps); ord++ {
			f(ord, audit.Entry{Sequence: at.Seq})
			n++
			w.waiting++
		}
		w.most, last = max(w.most, w.waiting), at
	}
	return last, true, nil
}

func (w *wideJob) Seqs(context.Context, []pawl.Ord) (map[pawl.Ord]int64, error) {
	return map[pawl.Ord]int64{0: 6}, nil
}
