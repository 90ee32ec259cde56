package explain

import (
	"context"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Letters are the letters of the states of steps in a Grid.
var Letters = map[machine.State]byte{
	lifecycle.StepPending: 'p', lifecycle.StepEnqueued: 'q', lifecycle.StepInProgress: 'r', lifecycle.StepComplete: 'c', lifecycle.StepRetryableError: 't',
	lifecycle.StepPermanentError: 'f', lifecycle.StepCancelled: 'x', lifecycle.StepSkipped: 's', lifecycle.StepResolvedManually: 'm',
}

// notMade is the letter of an instance that does not exist yet.
const notMade = '-'

// A Grid is the states of the instances of a fan-out, or of a step that is none, by letter.
type Grid struct {
	Step     string         `json:"step" doc:"The step of the file."`
	Total    int            `json:"total" doc:"How many instances there are to be. 0: it is no fan-out, or has not begun."`
	States   string         `json:"states" doc:"A letter for each instance, in the order of the items: p pending, q enqueued, r in_progress, c complete, t retryable_error, f permanent_error, x cancelled, s skipped, m resolved_manually, - not made yet. Of what is no fan-out, that of the step."`
	Sequence int64          `json:"sequence" doc:"The number of the job's moves and those of its steps that are seen at least. Absent for a moment of the past."`
	AsOf     pawl.Timestamp `json:"as_of" doc:"Of a moment of the past: when. Otherwise null."`
}

// nodeOf returns the number of a step of the file.
func nodeOf(def *workflow.Definition, node string) (int, error) {
	n := def.NodeByID(node)
	if n == 0 {
		return 0, pawl.Errorf(pawl.NotFound, "workflow %s has no step %q", def.Name, node)
	}
	return n, nil
}

// Grid returns the states of the instances of a step, now or at a moment. It reads no body.
func (r *Reader) Grid(ctx context.Context, id pawl.ID, node string, at pawl.Moment) (*Grid, error) {
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, err
	}
	n, err := nodeOf(def, node)
	if err != nil {
		return nil, err
	}
	g := &grid{letters: []byte{}}
	out := &Grid{Step: node}
	if at == (pawl.Moment{}) {
		if _, out.Sequence, err = r.store.JobSequence(ctx, j.Key()); err == nil {
			err = r.present(ctx, j, n, g.add)
		}
	} else {
		var until int64
		if until, err = r.until(ctx, j, at); err == nil {
			out.AsOf = pawl.Timestamp(until)
			err = r.eachTrail(ctx, j, n, until, func(s *pawl.Step, _ []audit.Entry) { g.add(s) })
		}
	}
	if err != nil {
		return nil, err
	}
	out.Total, out.States = g.total, g.text()
	return out, nil
}

// present calls f with the steps of a node, without bodies.
func (r *Reader) present(ctx context.Context, j *pawl.Job, node int, f func(*pawl.Step)) error {
	last := pawl.MakeOrd(node, pawl.MaxInstances)
	for after := pawl.MakeOrd(node, 0) - 1; ; {
		page, err := r.store.Bare(ctx, j.Key(), after, store.ListPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, s := range page {
			if s.Ord > last {
				return nil
			}
			f(s)
		}
		after = page[len(page)-1].Ord
	}
}

// A grid collects letters.
type grid struct {
	letters []byte
	own     byte
	total   int
}

func (g *grid) add(s *pawl.Step) {
	letter := Letters[s.State]
	i := s.Ord.Instance()
	if i == 0 {
		g.own, g.total = letter, s.Total
		return
	}
	for len(g.letters) < i {
		g.letters = append(g.letters, notMade)
	}
	g.letters[i-1] = letter
}

func (g *grid) text() string {
	if g.total == 0 && len(g.letters) == 0 {
		if g.own == 0 {
			return ""
		}
		return string(g.own)
	}
	for len(g.letters) < g.total {
		g.letters = append(g.letters, notMade)
	}
	return string(g.letters)
}

// until returns the time of a moment of a job. The error is of kind NotFound if the job, or the
// move, did not exist then.
func (r *Reader) until(ctx context.Context, j *pawl.Job, at pawl.Moment) (int64, error) {
	p := &past{j: j, v: &pawl.JobView{}, at: at, until: int64(at.Time), by: &audit.Withheld{}, restored: true}
	err := trail.EachEntry(ctx, r.store, store.JobEntity(j.Key()), func(e *audit.Entry) error { p.own(e); return nil })
	if err == nil {
		err = p.there()
	}
	return p.until, err
}

// eachTrail calls f with the steps of a node, or of all if it is 0, as far as they existed at a
// time, and with what their trails had then; 0 is now. Of a step the key, the state and the
// number of its instances are set.
func (r *Reader) eachTrail(ctx context.Context, j *pawl.Job, node int, until int64, f func(*pawl.Step, []audit.Entry)) error {
	totals := map[int]int{}
	nodes, err := r.store.Bare(ctx, j.Key(), 0, 1)
	for err == nil && len(nodes) > 0 { // the first step of each node: that of a fan-out has its total
		s := nodes[0]
		totals[s.Ord.Node()] = s.Total
		nodes, err = r.store.Bare(ctx, j.Key(), pawl.MakeOrd(s.Ord.Node(), pawl.MaxInstances), 1)
	}
	if err != nil {
		return err
	}
	return r.store.Trails(ctx, j.Key(), func(t store.TrailOf) error {
		if t.Ord == 0 || node != 0 && t.Ord.Node() != node {
			return nil
		}
		entries := t.Entries
		if until != 0 {
			entries = entries[:written(entries, until)]
		}
		if len(entries) == 0 {
			return nil
		}
		s := &pawl.Step{StepKey: t.StepKey}
		s.State = entries[len(entries)-1].To
		if s.Ord.Instance() == 0 && lifecycle.StepPending != s.State {
			s.Total = totals[s.Ord.Node()]
		}
		f(s, entries)
		return nil
	})
}
