package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/quota"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// reason begins a reason of the job itself.
func (q *inquiry) reason(kind pawl.ReasonKind, format string, args ...any) pawl.Reason {
	return pawl.Reason{Job: q.id, Status: q.job.State, Kind: kind, Text: fmt.Sprintf(format, args...)}
}

func (q *inquiry) ended() pawl.Reason {
	text := "it ended at " + q.clock(q.job.CompletedAt)
	if q.job.Error != nil && q.job.State != lifecycle.JobCompleted {
		text += ": " + q.job.Error.Text()
	}
	r := q.reason(pawl.ReasonEnded, "%s", text)
	if q.job.State != lifecycle.JobCompleted && q.job.Inputs != nil { // nil: it was redacted
		r.Hint = cmp.Or(q.job.Error.Resolve(q.id), "pawl job retry "+q.id)
	}
	return r
}

// ofJob returns the reasons of the job itself, at least one.
func (q *inquiry) ofJob() ([]pawl.Reason, error) {
	var reasons []pawl.Reason
	if q.job.Paused {
		r, err := q.paused()
		if err != nil {
			return nil, err
		}
		reasons = append(reasons, r)
	}
	if q.job.State != lifecycle.JobRunning {
		waits, err := q.pending()
		if err == nil && len(reasons)+len(waits) == 0 {
			waits = []pawl.Reason{q.about()}
		}
		return append(reasons, waits...), err
	}
	if r := q.underway(); len(reasons) == 0 || q.runs > 0 || r.Kind != pawl.ReasonRunning {
		reasons = append(reasons, r)
	}
	return reasons, nil
}

// paused returns who paused the job, when and why.
func (q *inquiry) paused() (pawl.Reason, error) {
	r := q.reason(pawl.ReasonPaused, "the job is paused")
	r.Hint = "pawl job resume " + q.id
	err := trail.EachEntry(q.ctx, q.reader.store, store.JobEntity(q.job.Key()), func(e *audit.Entry) error {
		if e.Event == lifecycle.JobPause { // the last pause counts
			r.Change = &pawl.ReasonChange{At: pawl.Timestamp(e.At), Actor: e.Actor, Reason: e.Reason}
			r.Text = fmt.Sprintf("paused by %s at %s", e.Actor, q.clock(e.At))
			if e.Reason != "" {
				r.Text += ": " + e.Reason
			}
		}
		return nil
	})
	return r, err
}

// underway returns the progress of a running job.
func (q *inquiry) underway() pawl.Reason {
	j := q.job
	r := q.reason(pawl.ReasonRunning, "no step runs on a worker")
	if q.runs > 0 {
		r.Text = fmt.Sprintf("%s on workers: %s", number(q.runs, "step runs", "steps run"), listed(q.run, q.runs))
	}
	r.Names = q.run
	switch {
	case j.Hooks == pawl.HooksRun:
		r.Text = fmt.Sprintf("it is going to be %s; its hooks run first; %s", j.Ending, r.Text)
	case q.stopping():
		r.Kind, r.Until = pawl.ReasonEnding, pawl.Timestamp(j.DueAt)
		r.Text = fmt.Sprintf("it is ending as %s, as soon as what runs has stopped; %s", j.Ending, r.Text)
	case j.Ending != "":
		r.Text = fmt.Sprintf("it is going to be %s when what does not depend on a failed step has ended; %s", j.Ending, r.Text)
	case j.Open == 0:
		r = q.reason(pawl.ReasonEvaluation, "all its steps have ended; it waits for an evaluator to end it%s", q.nobody())
	}
	if r.Hint == "" && r.Kind == pawl.ReasonEvaluation {
		r.Hint = q.somebody()
	}
	return r
}

// stopping reports whether the end of the job has begun, so that nothing new starts.
func (q *inquiry) stopping() bool {
	j := q.job
	if j.Hooks != pawl.HooksNotYet {
		return j.Hooks == pawl.HooksCancelled
	}
	return j.Ending == lifecycle.JobCanceled || j.Ending == lifecycle.JobFailed && q.def.OnError == workflow.Halt
}

func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// nobody returns a sentence saying that no evaluator is known, if that is so.
func (q *inquiry) nobody() string {
	switch {
	case !q.idle:
		return ""
	case len(q.workers) > 0:
		return "; no server is seen, which evaluates what workers leave"
	}
	return "; no process is seen that works on this database"
}

// somebody returns the command that starts an evaluator, or "" if there is one. For a
// private job the command also brings its owner back.
func (q *inquiry) somebody() string {
	switch {
	case !q.idle:
		return ""
	case q.job.Private != 0:
		return q.ownerGone().Hint
	case len(q.workers) > 0:
		return "pawl server"
	}
	return "pawl dev"
}

// about returns the reason of a pending job that nothing holds back.
func (q *inquiry) about() pawl.Reason {
	if q.job.Route != 0 && len(q.serving(q.job.Route)) > 0 {
		r := q.reason(pawl.ReasonReady, "nothing holds it back: a worker is about to start it")
		r.Workers = q.loads(q.serving(q.job.Route))
		return r
	}
	r := q.reason(pawl.ReasonEvaluation, "it waits for an evaluator to start it%s", q.nobody())
	r.Hint = q.somebody()
	return r
}

// pending returns the reasons why a job has not been started.
func (q *inquiry) pending() ([]pawl.Reason, error) {
	var reasons []pawl.Reason
	add := func(r *pawl.Reason) {
		if r != nil {
			reasons = append(reasons, *r)
		}
	}
	if q.job.Route != 0 {
		r, err := q.queuePause(q.def.Roots()[0]) // all first steps share the route
		if err != nil {
			return nil, err
		}
		add(r)
	}
	add(q.unserved(q.first()))
	demands := q.quotas.Demands(q.job, q.def)
	var pools []store.Pool
	for _, d := range demands {
		pools = append(pools, d.Pool)
	}
	used, err := q.reader.store.Usage(q.ctx, pools)
	if err != nil {
		return nil, err
	}
	for _, d := range demands {
		if used[d.Pool]+d.Takes <= d.Slots {
			continue
		}
		if d.Pool.Kind == store.PoolQuota {
			add(q.quota(d, used[d.Pool]))
			continue
		}
		r, err := q.concurrency(d, used[d.Pool])
		if err != nil {
			return nil, err
		}
		add(&r)
	}
	if len(reasons) == 0 && q.job.Route != 0 {
		add(q.crowded(q.job.Route))
	}
	if len(reasons) == 0 && q.job.Route != 0 {
		r, err := q.queueLimit(q.def.Roots()[0]) // all first steps share the route
		if err != nil {
			return nil, err
		}
		add(r)
	}
	return reasons, nil
}

// first returns the nodes that workers must serve before the job starts. A job that
// continues another may begin at any node.
func (q *inquiry) first() []int {
	if q.job.Continues != 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(q.def.Roots()), func(n int) bool { return q.def.Node(n).Kind.Waits() })
}

// unserved returns the reason that no live worker serves some of the nodes, or nil.
func (q *inquiry) unserved(nodes []int) *pawl.Reason {
	var missing []string
	for _, n := range nodes {
		if name := q.routeName(n); len(q.serving(decide.Route(q.def, q.job, n))) == 0 && !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	if q.job.Private != 0 {
		r := q.ownerGone()
		return &r
	}
	r := q.reason(pawl.ReasonNoWorker, "no live worker serves %s of workspace %s; %s", listed(missing, len(missing)), q.job.Workspace, q.living())
	r.Names, r.Workers, r.Hint = missing, q.loads(q.workers), q.serve(missing)
	return &r
}

// routeName returns queue/handler of a node.
func (q *inquiry) routeName(n int) string {
	node := q.def.Node(n)
	return node.Queue + "/" + node.Handler
}

// living describes the live workers and what they serve.
func (q *inquiry) living() string {
	if len(q.workers) == 0 {
		return "no worker lives"
	}
	var all []string
	for _, w := range q.workers[:min(len(q.workers), whyNames)] {
		text := workerName(w) + " serves " + strings.Join(slices.Sorted(slices.Values(w.Handlers)), ", ")
		if w.Workspace != q.job.Workspace {
			text += " of workspace " + w.Workspace
		}
		all = append(all, text)
	}
	text := "those that live: " + strings.Join(all, "; ")
	if more := len(q.workers) - len(all); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// builtIn are the handlers that every worker of the program serves.
var builtIn = []string{"command", "run", "http", "crew", "load"}

// serve returns advice on which worker to start for the routes.
func (q *inquiry) serve(routes []string) string {
	command := "pawl dev" + q.workspace()
	own := slices.DeleteFunc(slices.Clone(routes), func(route string) bool {
		_, handler, _ := strings.Cut(route, "/")
		return slices.Contains(builtIn, handler)
	})
	if len(own) > 0 {
		return fmt.Sprintf("start a worker that serves %s in workspace %s", listed(own, len(own)), q.job.Workspace)
	}
	for _, route := range routes {
		queue, _, _ := strings.Cut(route, "/")
		if flag := " --queue " + queue; queue != workflow.DefaultQueue && !strings.Contains(command+" ", flag+" ") {
			command += flag
		}
	}
	return command
}

// workspace returns the flag that names the job's workspace, if one is needed.
func (q *inquiry) workspace() string {
	if q.job.Workspace == pawl.DefaultWorkspace {
		return ""
	}
	return " --workspace " + q.job.Workspace
}

// raise returns the command that raises a quota.
func (q *inquiry) raise(name string, slots int) string {
	return fmt.Sprintf("pawl quota set %s %d%s", name, slots, q.workspace())
}

// ownerGone returns the reason that the only process that runs the job does not live.
func (q *inquiry) ownerGone() pawl.Reason {
	if q.owner == "" {
		q.owner = q.id
		if j, err := q.reader.store.Job(q.ctx, q.job.Private); err == nil {
			q.owner = j.ID.Public(pawl.JobPrefix)
		}
	}
	r := q.reason(pawl.ReasonOwner, "only the process that submitted it runs it, and that is not alive")
	r.Names, r.Hint = []string{q.owner}, "pawl run FILE --resume="+q.owner
	if q.commanded() {
		r.Hint = "pawl job cancel " + q.owner + "; after that, to run the command again: pawl job retry " + q.owner
	}
	return r
}

// commanded reports whether the job was made by "pawl exec", and so has no file to continue
// it with.
func (q *inquiry) commanded() bool {
	return q.job.Private == q.job.Key() && q.def.Name == "exec" && len(q.def.Nodes) == 1 && q.def.Node(1).ID == "command"
}

// quota returns the reason that the quota of the job's depth is full, or too small for it.
func (q *inquiry) quota(d quota.Demand, used int) *pawl.Reason {
	name := fmt.Sprintf("depth/%d", q.job.Depth)
	r := q.reason(pawl.ReasonQuota, "it takes %s of the quota %s, of which %d of %d are taken", number(d.Takes, "slot", "slots"), name, used, d.Slots)
	r.Slots = &pawl.Slots{Of: name, Takes: d.Takes, Used: used, Slots: d.Slots}
	r.Hint = fmt.Sprintf("wait for jobs of that depth to end, or: %s", q.raise(name, used+d.Takes))
	if d.Takes > d.Slots {
		r.Text = fmt.Sprintf("it takes %s of the quota %s, more than the %d that it has in all", number(d.Takes, "slot", "slots"), name, d.Slots)
		r.Hint = fmt.Sprintf("set workers in the workflow to %d or less, or: %s", d.Slots, q.raise(name, d.Takes))
	}
	return &r
}

// concurrency returns the reason that other jobs hold the job's concurrency key.
func (q *inquiry) concurrency(d quota.Demand, used int) (pawl.Reason, error) {
	holders, err := q.holders(min(used, whyNames))
	r := q.reason(pawl.ReasonConcurrency, "its concurrency key is taken by %s, %d of %d at once", listed(holders, max(used, len(holders))), used, d.Slots)
	r.Names, r.Slots = holders, &pawl.Slots{Of: q.job.Workflow, Takes: d.Takes, Used: used, Slots: d.Slots}
	r.Hint = "wait for one of them to end"
	if len(holders) == 1 {
		r.Hint = "wait for it to end, or: pawl job cancel " + holders[0]
	}
	return r, err
}

// holders returns at most that many of the jobs that hold the job's concurrency key, newest
// first. It reads a bounded number of running jobs.
func (q *inquiry) holders(most int) (ids []string, err error) {
	f := store.JobFilter{Workspace: q.job.Workspace, States: []machine.State{lifecycle.JobRunning}, Workflow: q.job.Workflow, Limit: whyHolders}
	for range whyHolderPages {
		jobs, err := q.reader.store.Jobs(q.ctx, f)
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			f.Before = j.Key()
			if j.Pool == q.job.Pool && len(ids) < most {
				ids = append(ids, j.ID.Public(pawl.JobPrefix))
			}
		}
		if len(jobs) < whyHolders || len(ids) == most {
			break
		}
	}
	return ids, nil
}

// queueLimit returns the reason that the limit of a node's queue is reached, or nil.
func (q *inquiry) queueLimit(n int) (*pawl.Reason, error) {
	queue := q.def.Node(n).Queue
	slots, limited := q.quotas.Queue(q.job.Workspace, queue)
	if !limited || q.job.Private != 0 {
		return nil, nil
	}
	pool := quota.QueuePool(q.job.Workspace, queue)
	all, err := q.reader.store.Usage(q.ctx, []store.Pool{pool})
	used := all[pool]
	if err != nil || used < slots {
		return nil, err
	}
	r := q.reason(pawl.ReasonQueueLimit, "the limit of queue %s is reached: %d of %d steps are in progress", queue, used, slots)
	r.Slots = &pawl.Slots{Of: "queue/" + queue, Takes: 1, Used: used, Slots: slots}
	r.Hint = "wait, or: " + q.raise("queue/"+queue, used+1)
	if slots == 0 {
		r.Text = fmt.Sprintf("the limit of queue %s is 0: none of its steps starts", queue)
		r.Hint = q.raise("queue/"+queue, used+1)
	}
	return &r, nil
}

// crowded returns the reason that none of the workers serving a route takes steps of it, or
// nil. There is at least one such worker.
func (q *inquiry) crowded(route rowkey.Route) *pawl.Reason {
	serving := q.serving(route)
	working := slices.DeleteFunc(slices.Clone(serving), func(w *pawl.Worker) bool { return w.State == lifecycle.WorkerPaused })
	if len(working) == 0 {
		r := q.reason(pawl.ReasonWorkersPaused, "every worker that serves it is paused: %s", workerNames(serving))
		r.Workers, r.Hint = q.loads(serving), "resume a worker, or start another"
		return &r
	}
	used, capacity := 0, 0
	for _, w := range working {
		used += min(q.running[w.Key()], w.Capacity)
		capacity += w.Capacity
	}
	if used < capacity {
		return nil
	}
	r := q.reason(pawl.ReasonWorkersBusy, "every worker that serves it is full: %d of %d slots of %s are taken; %s of its kind",
		used, capacity, workerNames(working), number(q.enqueued[route], "step waits", "steps wait"))
	r.Workers, r.Slots = q.loads(working), &pawl.Slots{Of: "workers", Takes: 1, Used: used, Slots: capacity}
	r.Hint = "start another worker, or wait"
	return &r
}

func workerNames(workers []*pawl.Worker) string {
	var names []string
	for _, w := range workers {
		names = append(names, workerName(w))
	}
	return listed(names, len(names))
}

// undefined returns the reason of a job whose definition cannot be read.
func undefined(j *pawl.Job, err error) pawl.Reason {
	return pawl.Reason{Job: j.ID.Public(pawl.JobPrefix), Status: j.State, Kind: pawl.ReasonUnreadable,
		Text: "its definition cannot be read, and whoever meets it passes it over: " + err.Error(),
		Hint: "a newer pawl may have made it; if not, restore it from a backup"}
}
