package storetest

import (
	"fmt"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

var recordFixed = []string{"CreatedAt", "ID", "Workspace"}

var jobs = &species[pawl.Job]{
	kind:   lifecycle.Job.Name,
	fixed:  append([]string{"Workflow", "Description", "Parent", "ParentStep", "Continues", "Schedule", "Depth", "Private"}, recordFixed...),
	bodies: []string{"Inputs", "Output", "Error", "Metadata"},
	base: func(e *env, now int64, n int, ch *store.Changes) (list []*pawl.Job) {
		for i := range n {
			j := &pawl.Job{ID: e.mint.ID(now)}
			j.State = lifecycle.JobRunning // the state in which a store has the most reason to cache it
			fill(lifecycle.Job.Name, j)
			if i%2 == 1 {
				j.Pool, j.Quota = 0, 0 // the fields that a store derives from the state differ
			}
			list = append(list, j)
		}
		ch.NewJobs = list
		return list
	},
	key: keyOfJob,
	query: func(keys []pawl.StepKey) *store.Query {
		return &store.Query{Jobs: keysIn[rowkey.Job](keys)}
	},
	fact:   func(f *store.Facts, k pawl.StepKey) *pawl.Job { return f.Jobs[k.Job] },
	update: func(ch *store.Changes, u store.Update[*pawl.Job]) { ch.Jobs = append(ch.Jobs, u) },
	record: func(j *pawl.Job) *pawl.Record { return &j.Record },
	views: []func(*env, store.Store, []pawl.StepKey) (map[pawl.StepKey]*pawl.Job, error){
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Job, error) {
			return byKey(keyOfJob)(st.Jobs(e.ctx, store.JobFilter{Before: keys[len(keys)-1].Job + 1, Limit: len(keys)}))
		},
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Job, error) {
			return each(keys, func(k pawl.StepKey) (*pawl.Job, error) { return st.Job(e.ctx, k.Job) })
		},
	},
}

func keyOfJob(j *pawl.Job) pawl.StepKey { return pawl.StepKey{Job: j.Key()} }

// stepsEach is how many steps a job has: a store may not cache more.
const stepsEach = 10

var steps = &species[pawl.Step]{
	kind:   lifecycle.Step.Name,
	fixed:  []string{"CreatedAt", "Job", "Ord"},
	bodies: []string{"Input", "Output", "Error"},
	base: func(e *env, now int64, n int, ch *store.Changes) (list []*pawl.Step) {
		var job rowkey.Job
		for i := range n {
			if i%stepsEach == 0 {
				ch.NewJobs = append(ch.NewJobs, jobs.base(e, now, 1, new(store.Changes))...)
				job = ch.NewJobs[len(ch.NewJobs)-1].Key()
			}
			s := &pawl.Step{StepKey: pawl.StepKey{Job: job, Ord: pawl.MakeOrd(i%stepsEach+1, 0)}}
			s.State = lifecycle.StepPending
			fill(lifecycle.Step.Name, s)
			if i%2 == 1 {
				s.Pool = 0
			}
			list = append(list, s)
		}
		ch.NewSteps = list
		return list
	},
	key: func(s *pawl.Step) pawl.StepKey { return s.StepKey },
	query: func(keys []pawl.StepKey) *store.Query {
		return &store.Query{Jobs: keysIn[rowkey.Job](keys), Steps: keys}
	},
	fact:   func(f *store.Facts, k pawl.StepKey) *pawl.Step { return f.Steps[k] },
	update: func(ch *store.Changes, u store.Update[*pawl.Step]) { ch.Steps = append(ch.Steps, u) },
	record: func(s *pawl.Step) *pawl.Record { return &s.Record },
	views: []func(*env, store.Store, []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error){
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error) {
			all := map[pawl.StepKey]*pawl.Step{}
			for _, job := range keysIn[rowkey.Job](keys) {
				list, err := st.Steps(e.ctx, job, 0, 0)
				if err != nil {
					return nil, err
				}
				for _, s := range list {
					all[s.StepKey] = s
				}
			}
			return all, nil
		},
	},
}

var workers = &species[pawl.Worker]{
	kind:   lifecycle.Worker.Name,
	fixed:  append([]string{"Name", "Host", "PID", "Silence"}, recordFixed...),
	bodies: []string{"Metadata"},
	base: func(e *env, now int64, n int, ch *store.Changes) (list []*pawl.Worker) {
		for range n {
			w := &pawl.Worker{ID: e.mint.ID(now)}
			fill(lifecycle.Worker.Name, w)
			list = append(list, w)
		}
		ch.NewWorkers = list
		return list
	},
	key: keyOfWorker,
	query: func(keys []pawl.StepKey) *store.Query {
		return &store.Query{Workers: keysIn[rowkey.Worker](keys)}
	},
	fact:   func(f *store.Facts, k pawl.StepKey) *pawl.Worker { return f.Workers[rowkey.Worker(k.Job)] },
	update: func(ch *store.Changes, u store.Update[*pawl.Worker]) { ch.Workers = append(ch.Workers, u) },
	record: func(w *pawl.Worker) *pawl.Record { return &w.Record },
	views: []func(*env, store.Store, []pawl.StepKey) (map[pawl.StepKey]*pawl.Worker, error){
		func(e *env, st store.Store, _ []pawl.StepKey) (map[pawl.StepKey]*pawl.Worker, error) {
			return byKey(keyOfWorker)(st.Workers(e.ctx, store.WorkerFilter{}))
		},
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Worker, error) {
			return each(keys, func(k pawl.StepKey) (*pawl.Worker, error) { return st.Worker(e.ctx, rowkey.Worker(k.Job)) })
		},
	},
}

func keyOfWorker(w *pawl.Worker) pawl.StepKey { return store.WorkerEntity(w.Key()).StepKey }

var schedules = &species[pawl.Schedule]{
	kind:   lifecycle.Schedule.Name,
	fixed:  append([]string{"Name"}, recordFixed...),
	bodies: []string{"Inputs"},
	base: func(e *env, now int64, n int, ch *store.Changes) (list []*pawl.Schedule) {
		for range n {
			s := &pawl.Schedule{ID: e.mint.ID(now)}
			s.Name = fmt.Sprint("s", s.Key())
			fill(lifecycle.Schedule.Name, s)
			list = append(list, s)
		}
		ch.NewSchedules = list
		return list
	},
	key: keyOfSchedule,
	query: func(keys []pawl.StepKey) *store.Query {
		return &store.Query{Schedules: keysIn[rowkey.Schedule](keys)}
	},
	fact:   func(f *store.Facts, k pawl.StepKey) *pawl.Schedule { return f.Schedules[rowkey.Schedule(k.Job)] },
	facts:  []string{"Inputs"},
	update: func(ch *store.Changes, u store.Update[*pawl.Schedule]) { ch.Schedules = append(ch.Schedules, u) },
	record: func(s *pawl.Schedule) *pawl.Record { return &s.Record },
	views: []func(*env, store.Store, []pawl.StepKey) (map[pawl.StepKey]*pawl.Schedule, error){
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Schedule, error) {
			return each(keys, func(k pawl.StepKey) (*pawl.Schedule, error) { return st.Schedule(e.ctx, rowkey.Schedule(k.Job)) })
		},
	},
}

func keyOfSchedule(s *pawl.Schedule) pawl.StepKey { return store.ScheduleEntity(s.Key()).StepKey }

var tokens = &species[pawl.Token]{
	kind:  lifecycle.Token.Name,
	fixed: []string{"CreatedAt", "ID", "Name", "Roles", "Workspaces", "Sum"},
	base: func(e *env, now int64, n int, ch *store.Changes) (list []*pawl.Token) {
		for range n {
			t := &pawl.Token{ID: e.mint.ID(now)}
			t.Name = fmt.Sprint("t", t.Key())
			fill(lifecycle.Token.Name, t)
			list = append(list, t)
		}
		ch.NewTokens = list
		return list
	},
	key: keyOfToken,
	query: func(keys []pawl.StepKey) *store.Query {
		return &store.Query{Tokens: keysIn[rowkey.Token](keys)}
	},
	fact:   func(f *store.Facts, k pawl.StepKey) *pawl.Token { return f.Tokens[rowkey.Token(k.Job)] },
	update: func(ch *store.Changes, u store.Update[*pawl.Token]) { ch.Tokens = append(ch.Tokens, u) },
	record: func(t *pawl.Token) *pawl.Record { return &t.Record },
	views: []func(*env, store.Store, []pawl.StepKey) (map[pawl.StepKey]*pawl.Token, error){
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Token, error) {
			return byKey(keyOfToken)(st.Tokens(e.ctx, rowkey.Token(keys[len(keys)-1].Job)+1, len(keys)))
		},
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Token, error) {
			return each(keys, func(k pawl.StepKey) (*pawl.Token, error) { return st.Token(e.ctx, rowkey.Token(k.Job)) })
		},
	},
}

func keyOfToken(t *pawl.Token) pawl.StepKey { return TokenKey(t).StepKey }

var pauses = &species[pawl.QueuePause]{
	kind:  lifecycle.QueuePause.Name,
	fixed: []string{"CreatedAt", "ID", "Workspace", "Queue"},
	base: func(e *env, now int64, n int, ch *store.Changes) (list []*pawl.QueuePause) {
		for range n {
			p := &pawl.QueuePause{ID: e.mint.ID(now)}
			p.Queue = fmt.Sprint("q", p.Key())
			fill(lifecycle.QueuePause.Name, p)
			list = append(list, p)
		}
		ch.NewPauses = list
		return list
	},
	key: keyOfPause,
	query: func(keys []pawl.StepKey) *store.Query {
		return &store.Query{Pauses: keysIn[rowkey.QueuePause](keys)}
	},
	fact:   func(f *store.Facts, k pawl.StepKey) *pawl.QueuePause { return f.Pauses[rowkey.QueuePause(k.Job)] },
	update: func(ch *store.Changes, u store.Update[*pawl.QueuePause]) { ch.Pauses = append(ch.Pauses, u) },
	record: func(p *pawl.QueuePause) *pawl.Record { return &p.Record },
	views: []func(*env, store.Store, []pawl.StepKey) (map[pawl.StepKey]*pawl.QueuePause, error){
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.QueuePause, error) {
			return byKey(keyOfPause)(st.Pauses(e.ctx, store.PauseFilter{Before: rowkey.QueuePause(keys[len(keys)-1].Job) + 1, Limit: len(keys)}))
		},
	},
}

func keyOfPause(p *pawl.QueuePause) pawl.StepKey { return PauseKey(p).StepKey }

var webhooks = &species[pawl.Webhook]{
	kind:  lifecycle.Webhook.Name,
	fixed: []string{"CreatedAt", "ID", "Name", "Workspace", "URL", "Job", "Machines", "Events", "Begin"},
	base: func(e *env, now int64, n int, ch *store.Changes) (list []*pawl.Webhook) {
		for range n {
			w := &pawl.Webhook{ID: e.mint.ID(now)}
			w.Name = fmt.Sprint("w", w.Key())
			fill(lifecycle.Webhook.Name, w)
			list = append(list, w)
		}
		ch.NewWebhooks = list
		return list
	},
	key: keyOfWebhook,
	query: func(keys []pawl.StepKey) *store.Query {
		return &store.Query{Webhooks: keysIn[rowkey.Webhook](keys)}
	},
	fact:   func(f *store.Facts, k pawl.StepKey) *pawl.Webhook { return f.Webhooks[rowkey.Webhook(k.Job)] },
	update: func(ch *store.Changes, u store.Update[*pawl.Webhook]) { ch.Webhooks = append(ch.Webhooks, u) },
	record: func(w *pawl.Webhook) *pawl.Record { return &w.Record },
	views: []func(*env, store.Store, []pawl.StepKey) (map[pawl.StepKey]*pawl.Webhook, error){
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Webhook, error) {
			return byKey(keyOfWebhook)(st.Webhooks(e.ctx, rowkey.Webhook(keys[len(keys)-1].Job)+1, len(keys)))
		},
		func(e *env, st store.Store, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Webhook, error) {
			return each(keys, func(k pawl.StepKey) (*pawl.Webhook, error) { return st.Webhook(e.ctx, rowkey.Webhook(k.Job)) })
		},
	},
}

func keyOfWebhook(w *pawl.Webhook) pawl.StepKey { return WebhookKey(w).StepKey }

// keysIn returns the keys of the jobs, each once; for other records, their own keys.
func keysIn[K ~int64](keys []pawl.StepKey) (list []K) {
	for i, k := range keys {
		if i == 0 || k.Job != keys[i-1].Job {
			list = append(list, K(k.Job))
		}
	}
	return list
}

func byKey[R any](key func(*R) pawl.StepKey) func([]*R, error) (map[pawl.StepKey]*R, error) {
	return func(list []*R, err error) (map[pawl.StepKey]*R, error) {
		all := make(map[pawl.StepKey]*R, len(list))
		for _, r := range list {
			all[key(r)] = r
		}
		return all, err
	}
}

// each reads records one by one, unless there are many.
func each[R any](keys []pawl.StepKey, read func(pawl.StepKey) (*R, error)) (map[pawl.StepKey]*R, error) {
	if len(keys) > 60 {
		return nil, nil
	}
	all := make(map[pawl.StepKey]*R, len(keys))
	for _, k := range keys {
		r, err := read(k)
		if err != nil {
			return nil, err
		}
		all[k] = r
	}
	return all, nil
}
