package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Ward is what a store saw of the work in it and of the processes on it, at
// one moment of the database's clock. Work that is one process's own is left out.
type Ward struct {
	Now     int64
	Skew    int64 // microseconds that this machine's clock is ahead, at least
	Nodes   []*pawl.Node
	Workers []*pawl.Worker // in a living state
	Living  *Report        // what was seen of them
	Waiting []Waiting      // for a worker, by route
	Open    int            // unfinished jobs that are not paused
	Late    []Late
}

// Waiting is the work of one route that waits for a worker.
type Waiting struct {
	Route  int64
	Jobs   int     // pending
	Steps  int     // enqueued
	Oldest int64   // since when
	Job    pawl.ID // the oldest one's
}

// Late is work of the evaluator that is overdue.
type Late struct {
	Check string // deadlines or evaluation
	What  string // job, step, worker, schedule
	Count int
	Since int64
}

// silentAfter is how long a process may go without a beat, which it gives every
// 10 s at least, before it counts no more: it has stopped, or died.
const silentAfter = 30 * time.Second

// dead returns how it is known of workers that they seem dead.
func (w *Ward) dead() map[int64]string {
	dead := make(map[int64]string)
	if w.Living != nil {
		for _, d := range Glance(w.Living, Silence) {
			dead[d.Worker] = d.Reason()
		}
	}
	return dead
}

// Examine judges a ward, and the jobs of which nothing moves.
func Examine(w *Ward, stuck []pawl.StuckJob) []Finding {
	r := new(Diagnosis)
	r.clocks(w)
	r.versions(w)
	r.server(w)
	r.workers(w)
	r.routes(w)
	r.late(w)
	r.stuck(stuck)
	r.Well("clocks", "versions", "server", "workers", "routes", "queue", "deadlines", "evaluation", "stuck")
	return r.Findings
}

// alive answers the processes that are heard of, but for those whose worker is dead.
func (w *Ward) alive() []*pawl.Node {
	var alive []*pawl.Node
	dead := w.dead()
	for _, n := range w.Nodes {
		lost := slices.ContainsFunc(w.Workers, func(x *pawl.Worker) bool {
			return n.Role != "server" && dead[x.Key()] != "" && x.Host == n.Host && x.PID == n.PID
		})
		if !lost && since(w.Now, n.BeatAt) < silentAfter {
			alive = append(alive, n)
		}
	}
	return alive
}

func since(now, then int64) time.Duration { return time.Duration(now-then) * time.Microsecond }

func nodeName(n *pawl.Node) string { return n.Role + " " + n.Name }

func (r *Diagnosis) clocks(w *Ward) {
	r.skew("this machine", w.Skew)
	for _, n := range w.alive() {
		r.skew(nodeName(n), n.Skew)
	}
}

func (r *Diagnosis) skew(who string, skew int64) {
	d, word := since(skew, 0), "ahead of"
	if d < 0 {
		d, word = -d, "behind"
	}
	r.Grade("clocks", d.Seconds(), who, "its clock is %s %s the database's", span(d), word)
}

func (r *Diagnosis) versions(w *Ward) {
	by := map[string][]string{}
	var order []string
	for _, n := range w.alive() {
		if by[n.Version] == nil {
			order = append(order, n.Version)
		}
		by[n.Version] = append(by[n.Version], nodeName(n))
	}
	if len(order) < 2 {
		return
	}
	slices.Sort(order)
	var parts []string
	for _, v := range order {
		parts = append(parts, fmt.Sprintf("%s: %s", v, some(by[v])))
	}
	r.Say("versions", Warning, "", "%d versions are alive: %s", len(order), strings.Join(parts, "; "))
}

// some lists the first of names, and how many more there are.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// server leaves a database alone whose workers say nothing of their process.
func (r *Diagnosis) server(w *Ward) {
	if len(w.Nodes) == 0 && len(w.Workers) > len(w.dead()) {
		return
	}
	evaluates := func(n *pawl.Node) bool { return n.Role == "server" || n.Role == "dev" }
	if w.Open > 0 && !slices.ContainsFunc(w.alive(), evaluates) {
		r.Say("server", Problem, "", "no process that evaluates is alive, and %d jobs are unfinished", w.Open)
	}
}

func (r *Diagnosis) workers(w *Ward) {
	dead := w.dead()
	for _, x := range w.Workers {
		if why := dead[x.Key()]; why != "" {
			r.Say("workers", Warning, workerName(x), "%s", why)
		}
	}
}

func workerName(w *pawl.Worker) string {
	name := w.Name
	if name == "" {
		name = fmt.Sprintf("%s/%d", w.Host, w.PID)
	}
	return "worker " + name
}

func (r *Diagnosis) routes(w *Ward) {
	for _, x := range w.Waiting {
		waiting := fmt.Sprintf("%d jobs and %d steps wait, the oldest for %s (job %s)",
			x.Jobs, x.Steps, span(since(w.Now, x.Oldest)), x.Job.Public(pawl.JobPrefix))
		if !w.served(x.Route) {
			r.Say("routes", Problem, "", "no living worker takes them: %s", waiting)
			continue
		}
		r.Grade("queue", since(w.Now, x.Oldest).Seconds(), "", "%s", waiting)
	}
}

// served reports whether a worker is alive that takes what is on the route.
func (w *Ward) served(route int64) bool {
	dead := w.dead()
	return slices.ContainsFunc(w.Workers, func(x *pawl.Worker) bool {
		return dead[x.Key()] == "" && x.State != lifecycle.WorkerPaused && slices.Contains(x.Routes, route)
	})
}

func (r *Diagnosis) late(w *Ward) {
	for _, l := range w.Late {
		age := since(w.Now, l.Since)
		what := "deadlines are over"
		if l.Check == "evaluation" {
			what = "are to be evaluated"
		}
		r.Grade(l.Check, age.Seconds(), l.What, "%d %s, the oldest for %s", l.Count, what, span(age))
	}
}

// patient are the reasons for which a job may well stand still.
var patient = []pawl.ReasonKind{
	pawl.ReasonPaused, pawl.ReasonRunning, pawl.ReasonQuota, pawl.ReasonConcurrency, pawl.ReasonQueueLimit, pawl.ReasonBackoff,
	pawl.ReasonJobSlots, pawl.ReasonApproval, pawl.ReasonSleep, pawl.ReasonEvent, pawl.ReasonChild, pawl.ReasonFanOut, pawl.ReasonWorkersBusy,
}

func (r *Diagnosis) stuck(jobs []pawl.StuckJob) {
	var ids []string
	for i := range jobs {
		if j := &jobs[i]; j.Reason == nil || !slices.Contains(patient, j.Reason.Kind) {
			ids = append(ids, j.ID)
		}
	}
	r.Grade("stuck", float64(len(ids)), "", "%d jobs: %s", len(ids), some(ids))
}

// Skew answers how far a clock is ahead that was read before and after asking
// another for its time: no more than is certain.
func Skew(before, after, asked int64) int64 {
	switch {
	case before > asked:
		return before - asked
	case after < asked:
		return after - asked
	}
	return 0
}
