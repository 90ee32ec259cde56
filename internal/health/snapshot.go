package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
)

// A Snapshot is what a store saw of the work in it and of the processes on it, at one
// moment of the database's clock. Work of a single process is left out.
type Snapshot struct {
	Now     int64
	Skew    int64 // how many microseconds this machine's clock is ahead, at least
	Nodes   []*pawl.Node
	Workers []*pawl.Worker // in a living state
	Living  *Report        // what was observed of them
	Waiting []Waiting      // work that waits for a worker, by route
	Open    int            // unfinished jobs that are not paused
	Late    []Late
	Secrets map[string]int // secrets of webhooks, by the fingerprint of their key; empty: readable
	Blocked []Blocked
}

// Blocked is an active webhook to which nothing is sent, since no server can decrypt its secrets.
type Blocked struct{ Webhook, Why string }

// Waiting is the work of one route that waits for a worker.
type Waiting struct {
	Route  rowkey.Route
	Jobs   int     // pending
	Steps  int     // enqueued
	Oldest int64   // since when the oldest waits
	Job    pawl.ID // the job of the oldest
}

// Late is overdue work of the evaluator.
type Late struct {
	Check string // deadlines or evaluation
	What  string // job, step, worker, schedule
	Count int
	Since int64
}

// silentAfter is how long a process may go without a beat, which it sends at least every
// 10 s, before it counts as stopped or dead.
const silentAfter = 30 * time.Second

// dead returns why workers seem dead, by key.
func (s *Snapshot) dead() map[rowkey.Worker]string {
	dead := make(map[rowkey.Worker]string)
	if s.Living != nil {
		for _, d := range Glance(s.Living, Silence) {
			dead[d.Worker] = d.Reason()
		}
	}
	return dead
}

// Examine judges a snapshot, and the jobs that make no progress.
func Examine(s *Snapshot, stuck []pawl.StuckJob) []Finding {
	r := new(Diagnosis)
	r.secrets(s)
	r.clocks(s)
	r.versions(s)
	r.server(s)
	r.workers(s)
	r.routes(s)
	r.late(s)
	r.stuck(stuck)
	r.Well("secrets", "clocks", "versions", "server", "workers", "routes", "queue", "deadlines", "evaluation", "stuck")
	return r.Findings
}

// alive returns the processes that send beats, except those whose worker is dead.
func (s *Snapshot) alive() []*pawl.Node {
	var alive []*pawl.Node
	dead := s.dead()
	for _, n := range s.Nodes {
		lost := slices.ContainsFunc(s.Workers, func(x *pawl.Worker) bool {
			return n.Role != "server" && dead[x.Key()] != "" && x.Host == n.Host && x.PID == n.PID
		})
		if !lost && since(s.Now, n.BeatAt) < silentAfter {
			alive = append(alive, n)
		}
	}
	return alive
}

func since(now, then int64) time.Duration { return time.Duration(now-then) * time.Microsecond }

func nodeName(n *pawl.Node) string { return n.Role + " " + n.Name }

// secrets names the keys that are in use, so that it can be seen when one is not any more, and the
// webhooks whose key is missing.
func (r *Diagnosis) secrets(s *Snapshot) {
	all := 0
	for _, n := range s.Secrets {
		all += n
	}
	for _, key := range slices.Sorted(maps.Keys(s.Secrets)) {
		if key == "" {
			r.Say("secrets", Warning, "", "%d of %d secrets of webhooks can be read in the database", s.Secrets[key], all)
		} else {
			r.Say("secrets", OK, "key "+key, "it encrypts %d of %d secrets of webhooks", s.Secrets[key], all)
		}
	}
	keys := len(s.Secrets)
	if s.Secrets[""] > 0 {
		keys--
	}
	if keys > 1 {
		r.Say("secrets", Warning, "", "secrets of webhooks are encrypted with %d keys", keys)
		r.Advise("wait, if the key is being changed; otherwise give every server the same file with all of these keys")
	}
	for _, b := range s.Blocked {
		r.Say("secrets", Warning, "webhook "+b.Webhook, "nothing is sent to it: %s", b.Why)
		r.Advise("give a server the file with that key, with --secret-key-file; if the key is lost, or the secret was changed: pawl webhook rotate " + b.Webhook)
	}
}

func (r *Diagnosis) clocks(s *Snapshot) {
	r.skew("this machine", s.Skew)
	for _, n := range s.alive() {
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

func (r *Diagnosis) versions(s *Snapshot) {
	by := map[string][]string{}
	var order []string
	for _, n := range s.alive() {
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

// some lists the first few names, and how many more there are.
func some(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// server says nothing of a database whose workers do not register their processes.
func (r *Diagnosis) server(s *Snapshot) {
	if len(s.Nodes) == 0 && len(s.Workers) > len(s.dead()) {
		return
	}
	evaluates := func(n *pawl.Node) bool { return n.Role == "server" || n.Role == "dev" }
	if s.Open > 0 && !slices.ContainsFunc(s.alive(), evaluates) {
		r.Say("server", Problem, "", "no server is alive, and %d jobs are unfinished", s.Open)
	}
}

func (r *Diagnosis) workers(s *Snapshot) {
	dead := s.dead()
	for _, x := range s.Workers {
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

func (r *Diagnosis) routes(s *Snapshot) {
	for _, x := range s.Waiting {
		waiting := fmt.Sprintf("%d jobs and %d steps wait, the oldest for %s (job %s)",
			x.Jobs, x.Steps, span(since(s.Now, x.Oldest)), x.Job.Public(pawl.JobPrefix))
		if !s.served(x.Route) {
			r.Say("routes", Problem, "", "no living worker takes them: %s", waiting)
			continue
		}
		r.Grade("queue", since(s.Now, x.Oldest).Seconds(), "", "%s", waiting)
	}
}

// served reports whether a live worker serves the route.
func (s *Snapshot) served(route rowkey.Route) bool {
	dead := s.dead()
	return slices.ContainsFunc(s.Workers, func(x *pawl.Worker) bool {
		return dead[x.Key()] == "" && x.State != lifecycle.WorkerPaused && slices.Contains(x.Routes, route)
	})
}

func (r *Diagnosis) late(s *Snapshot) {
	for _, l := range s.Late {
		age := since(s.Now, l.Since)
		what := "deadlines are over"
		if l.Check == "evaluation" {
			what = "are to be evaluated"
		}
		r.Grade(l.Check, age.Seconds(), l.What, "%d %s, the oldest for %s", l.Count, what, span(age))
	}
}

// expectedIdle are the reasons for which a job may rightly make no progress.
var expectedIdle = []pawl.ReasonKind{
	pawl.ReasonPaused, pawl.ReasonRunning, pawl.ReasonQuota, pawl.ReasonConcurrency, pawl.ReasonQueueLimit, pawl.ReasonBackoff,
	pawl.ReasonJobSlots, pawl.ReasonApproval, pawl.ReasonSleep, pawl.ReasonEvent, pawl.ReasonChild, pawl.ReasonFanOut, pawl.ReasonWorkersBusy,
}

// Stuck reports whether a job in which nothing has moved for some time ought to move, by its
// main reason.
func Stuck(main *pawl.Reason) bool { return main == nil || !slices.Contains(expectedIdle, main.Kind) }

func (r *Diagnosis) stuck(jobs []pawl.StuckJob) {
	var ids []string
	for i := range jobs {
		if j := &jobs[i]; Stuck(j.Reason) {
			ids = append(ids, j.ID)
		}
	}
	r.Grade("stuck", float64(len(ids)), "", "%d jobs: %s", len(ids), some(ids))
}

// Skew returns how far a clock is ahead of another that was read between two readings of
// it: as much as is certain.
func Skew(before, after, asked int64) int64 {
	switch {
	case before > asked:
		return before - asked
	case after < asked:
		return after - asked
	}
	return 0
}
