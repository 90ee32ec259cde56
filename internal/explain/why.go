package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// Limits of an inquiry.
const (
	whyPage        = 200 // steps read at once
	whyNames       = 10  // names listed in one reason
	whyEach        = 10  // instances of a fan-out that get a reason of their own
	whyHolders     = 50  // running jobs read at once in the search for holders of a concurrency key
	whyHolderPages = 20
)

// Why returns why a job makes no progress at this moment: first the job's own reasons, then
// one for every step that has not ended and does not run on a worker, in the order of the
// workflow. Of a fan-out it includes the first few instances, and all of them in groups
// with the fan-out itself. With the key of a step it returns the reasons of that step
// alone, whatever its state, and of its instances.
//
// It writes nothing, and reads the job, its steps and its surroundings one after another:
// while the job moves, the reasons may be from different moments.
func (r *Reader) Why(ctx context.Context, id pawl.ID, step string) ([]pawl.Reason, error) {
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	sc, err := r.survey(ctx)
	if err != nil {
		return nil, err
	}
	q, err := r.inquire(ctx, sc, j)
	if store.Unreadable(err) {
		return []pawl.Reason{undefined(j, err)}, nil
	}
	if err != nil {
		return nil, err
	}
	if step == "" {
		return q.reasons()
	}
	ord, err := q.def.OrdOf(step)
	if err != nil {
		return nil, err
	}
	return q.one(ord)
}

// A scene holds the surroundings of all jobs: the workers that live, what they run, and the
// limits that operators have set.
type scene struct {
	now      int64 // the database's clock
	workers  []*pawl.Worker
	dead     map[rowkey.Worker]string // workers not released yet, and the sign of their death
	enqueued map[rowkey.Route]int     // steps, by route
	running  map[rowkey.Worker]int    // steps, by worker
	quotas   *quota.Limits
	idle     bool // no process is known to evaluate
}

func (r *Reader) survey(ctx context.Context) (*scene, error) {
	agenda, err := r.store.Look(ctx, store.LookQuery{Limit: 1})
	if err != nil {
		return nil, err
	}
	sc := &scene{now: agenda.Now}
	if sc.workers, sc.dead, err = r.living(ctx); err != nil {
		return nil, err
	}
	if r.cfg.Passive {
		nodes, err := r.store.Nodes(ctx)
		if err != nil {
			return nil, err
		}
		sc.idle = !health.Evaluated(nodes, sc.workers, sc.now)
	}
	if sc.enqueued, sc.running, err = r.store.InFlight(ctx); err != nil {
		return nil, err
	}
	sc.quotas, err = r.limits.Get(ctx)
	return sc, err
}

// serving returns the live workers that serve a route.
func (sc *scene) serving(route rowkey.Route) []*pawl.Worker {
	var serving []*pawl.Worker
	for _, w := range sc.workers {
		if slices.Contains(w.Routes, route) {
			serving = append(serving, w)
		}
	}
	return serving
}

// loads returns workers in the form that a reason lists them.
func (sc *scene) loads(workers []*pawl.Worker) []pawl.WorkerLoad {
	var loads []pawl.WorkerLoad
	for _, w := range workers[:min(len(workers), whyNames)] {
		serves := slices.Sorted(slices.Values(w.Handlers))
		loads = append(loads, pawl.WorkerLoad{ID: w.ID.Public(pawl.WorkerPrefix), Name: workerName(w), Status: w.State,
			Serves: serves, Running: sc.running[w.Key()], Capacity: w.Capacity})
	}
	return loads
}

func workerName(w *pawl.Worker) string {
	return cmp.Or(w.Name, fmt.Sprintf("%s/%d", w.Host, w.PID))
}

// clock formats a time for a reason: without the date if it is today.
func (sc *scene) clock(at int64) string {
	t := pawl.Time(at)
	if t.Format(time.DateOnly) == pawl.Time(sc.now).Format(time.DateOnly) {
		return t.Format("15:04:05Z")
	}
	return t.Format("2006-01-02 15:04:05Z")
}

// An inquiry collects the reasons of one job.
type inquiry struct {
	reader *Reader
	ctx    context.Context
	*scene
	job *pawl.Job
	id  string
	def *workflow.Definition

	nodes  map[int]*pawl.Step // without outputs
	fans   map[int]*tally     // of the fan-outs with instances that live
	heard  map[string]bool    // names of the signals that no step has taken
	active []string           // keys of the first steps that take slots of the job
	run    []string           // keys of the first of these that run on a worker
	taken  int                // slots of the job that are taken
	runs   int                // steps that run on a worker
	last   int64              // when the job or a step last changed
	owner  string             // of a private job: the job whose process runs it, once looked up
	all    bool               // every instance is read
	child  bool               // made by the parent's inquiry: does not inquire into its own children
}

// A tally counts what the instances of a fan-out wait for.
type tally struct {
	first []*pawl.Step // instances that do not run, at most whyEach
	group []pawl.Reason
}

func (r *Reader) inquire(ctx context.Context, sc *scene, j *pawl.Job) (*inquiry, error) {
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, err
	}
	return &inquiry{reader: r, ctx: ctx, scene: sc, job: j, id: j.ID.Public(pawl.JobPrefix), def: def,
		nodes: make(map[int]*pawl.Step), fans: make(map[int]*tally), heard: make(map[string]bool), last: j.UpdatedAt}, nil
}

// read reads all nodes, the instances of each fan-out up to the last one that lives, and
// which signals have arrived.
func (q *inquiry) read() error {
	if err := q.listen(); err != nil {
		return err
	}
	live := 0
	for after := pawl.Ord(0); ; {
		page, err := q.reader.store.Steps(q.ctx, q.job.Key(), after, whyPage)
		if err != nil {
			return err
		}
		for _, s := range page {
			after, s.Output = s.Ord, nil
			if q.def.Node(s.Ord.Node()).Fans() && s.Ord.Instance() == 0 {
				s.Input = nil // the list of items
			}
			q.last = max(q.last, s.UpdatedAt)
			if s.Ord.Instance() == 0 {
				q.nodes[s.Ord.Node()], live = s, s.Live
			}
			q.note(s)
			if s.Ord.Instance() != 0 && !lifecycle.Step.Ended(s.State) {
				live--
				q.count(s)
			}
		}
		if len(page) == 0 {
			return nil
		}
		if live <= 0 && !q.all {
			after = pawl.MakeOrd(after.Node(), pawl.MaxInstances) // no later instance of this fan-out lives
		}
	}
}

// listen records the signals that no step has taken, if the job waits for any.
func (q *inquiry) listen() error {
	if !slices.ContainsFunc(q.def.Nodes, func(n workflow.Node) bool { return n.Kind == workflow.KindEvent }) {
		return nil
	}
	signals, err := q.reader.store.Signals(q.ctx, q.job.Key())
	for _, s := range signals {
		q.heard[s.Name] = true
	}
	return err
}

// note records a step that takes a slot of the job.
func (q *inquiry) note(s *pawl.Step) {
	runs := s.State == lifecycle.StepInProgress && s.Worker != 0
	if !runs && s.State != lifecycle.StepEnqueued {
		return
	}
	key := q.def.Key(s.Ord)
	if q.taken++; len(q.active) < whyNames {
		q.active = append(q.active, key)
	}
	if !runs || q.dead[s.Worker] != "" {
		return
	}
	if q.runs++; len(q.run) < whyNames {
		q.run = append(q.run, key)
	}
}

// count adds a live instance to the tally of its fan-out.
func (q *inquiry) count(s *pawl.Step) {
	t := q.fans[s.Ord.Node()]
	if t == nil {
		t = &tally{}
		q.fans[s.Ord.Node()] = t
	}
	r := q.shallow(s)
	if r.Kind != pawl.ReasonRunning && len(t.first) < whyEach {
		t.first = append(t.first, s)
	}
	for i := range t.group {
		g := &t.group[i]
		if g.Kind == r.Kind {
			g.Count++
			if g.Until == 0 || r.Until != 0 && r.Until < g.Until {
				g.Until = r.Until // the earliest
			}
			return
		}
	}
	r.Count = 1
	t.group = append(t.group, r)
}

// reasons returns all reasons of the job.
func (q *inquiry) reasons() ([]pawl.Reason, error) {
	if lifecycle.Job.Ended(q.job.State) {
		return []pawl.Reason{q.ended()}, nil
	}
	if err := q.read(); err != nil {
		return nil, err
	}
	reasons, err := q.ofJob()
	if err != nil {
		return nil, err
	}
	for n := 1; n <= len(q.def.Nodes); n++ {
		s := q.nodes[n]
		if s == nil {
			reasons = append(reasons, q.damaged(pawl.MakeOrd(n, 0)))
		}
		if s == nil || lifecycle.Step.Ended(s.State) {
			continue
		}
		some, err := q.ofNode(s)
		if err != nil {
			return nil, err
		}
		for _, r := range some {
			if r.Kind != pawl.ReasonRunning {
				reasons = append(reasons, r)
			}
		}
	}
	return reasons, nil
}

// ofNode returns the reason of a node, and those of its first instances.
func (q *inquiry) ofNode(s *pawl.Step) ([]pawl.Reason, error) {
	steps := []*pawl.Step{s}
	if t := q.fans[s.Ord.Node()]; t != nil {
		steps = append(steps, t.first...)
	}
	var reasons []pawl.Reason
	for _, s := range steps {
		r, err := q.ofStep(s)
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, r)
	}
	return reasons, nil
}

// one returns the reason of one step, and those of its instances if it has any.
func (q *inquiry) one(ord pawl.Ord) ([]pawl.Reason, error) {
	if err := q.read(); err != nil {
		return nil, err
	}
	if ord.Instance() == 0 && q.nodes[ord.Node()] != nil {
		return q.ofNode(q.nodes[ord.Node()])
	}
	if ord.Instance() == 0 {
		return []pawl.Reason{q.damaged(ord)}, nil
	}
	k := pawl.StepKey{Job: q.job.Key(), Ord: ord}
	page, err := q.reader.store.Steps(q.ctx, k.Job, ord-1, 1)
	if err != nil {
		return nil, err
	}
	if len(page) == 0 || page[0].Ord != ord {
		return nil, pawl.Errorf(pawl.NotFound, "job %s has no step %s yet", q.id, q.def.Key(ord))
	}
	r, err := q.ofStep(page[0])
	return []pawl.Reason{r}, err
}

// listed joins the first of names, and adds how many more there are of all.
func listed(names []string, all int) string {
	shown := names[:min(len(names), whyNames)]
	text := strings.Join(shown, ", ")
	if all > len(shown) {
		text += fmt.Sprintf(" and %d more", all-len(shown))
	}
	return text
}
