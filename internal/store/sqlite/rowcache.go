package sqlite

import (
	"slices"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
)

// Bounds of the cache: how many records of a kind, and the total size of the inputs and
// metadata of a job.
const (
	maxCached        = 8192
	cachedBodyLength = 1 << 10
)

// A rowCache holds what the writing connection knows of records in the database, so that
// records this process has read or written are not read again. It is valid until another
// connection commits, which SQLite reports, or this one commits outside Do. It returns copies
// of its records, and updates them after a commit.
type rowCache struct {
	version int64 // of the data, as this connection sees it
	jobs    map[rowkey.Job]*cachedJob
	steps   map[pawl.StepKey]*pawl.Step
	workers map[rowkey.Worker]*pawl.Worker
}

type cachedJob struct {
	job    pawl.Job // without output and error
	bodies bool     // with inputs and metadata
}

func newRowCache() *rowCache {
	return &rowCache{jobs: map[rowkey.Job]*cachedJob{}, steps: map[pawl.StepKey]*pawl.Step{}, workers: map[rowkey.Worker]*pawl.Worker{}}
}

func (k *rowCache) forget() {
	clear(k.jobs)
	clear(k.steps)
	clear(k.workers)
}

// refresh drops what others may have changed. A write transaction must be in progress, so that
// the data does not change from now on.
func (k *rowCache) refresh(c *conn) error {
	var version int64
	err := c.each(dataVersion, nil, func(cols *columns) error {
		version = cols.int()
		return nil
	})
	if err != nil || version != k.version || max(len(k.jobs), len(k.steps), len(k.workers)) > maxCached {
		k.forget()
	}
	k.version = version
	return err
}

func (k *rowCache) job(key rowkey.Job) *pawl.Job {
	known := k.jobs[key]
	if known == nil {
		return nil
	}
	j := known.job
	j.Inputs, j.Metadata = nil, nil
	return &j
}

// jobInputs returns a job with its inputs and metadata, or nil.
func (k *rowCache) jobInputs(key rowkey.Job) *pawl.Job {
	known := k.jobs[key]
	if known == nil || !known.bodies {
		return nil
	}
	j := known.job
	j.Inputs, j.Metadata = slices.Clone(j.Inputs), slices.Clone(j.Metadata)
	return &j
}

func (k *rowCache) step(key pawl.StepKey) *pawl.Step {
	known := k.steps[key]
	if known == nil {
		return nil
	}
	s := *known
	return &s
}

func (k *rowCache) worker(key rowkey.Worker) *pawl.Worker {
	known := k.workers[key]
	if known == nil {
		return nil
	}
	return cloneWorker(known)
}

// keepJob keeps a job that was read or written, with its bodies if they were.
func (k *rowCache) keepJob(j *pawl.Job, bodies bool) {
	known := &cachedJob{job: *j}
	jobTable.Bare(&known.job)
	known.bodies = bodies && len(j.Inputs)+len(j.Metadata) <= cachedBodyLength
	if known.bodies {
		known.job.Inputs, known.job.Metadata = slices.Clone(j.Inputs), slices.Clone(j.Metadata)
	}
	k.jobs[j.Key()] = known
}

func (k *rowCache) keepStep(s *pawl.Step) {
	kept := *s
	stepTable.Bare(&kept)
	k.steps[s.StepKey] = &kept
}

func (k *rowCache) keepWorker(w *pawl.Worker) { k.workers[w.Key()] = cloneWorker(w) }

// cloneWorker copies a worker without the metadata.
func cloneWorker(w *pawl.Worker) *pawl.Worker {
	c := *w
	workerTable.Bare(&c)
	c.Routes, c.Handlers = slices.Clone(w.Routes), slices.Clone(w.Handlers)
	return &c
}

// committed takes over the committed changes. It drops ended records, which are rarely needed
// again.
func (k *rowCache) committed(ch *store.Changes) {
	for _, w := range ch.NewWorkers {
		k.keepWorker(w)
	}
	for _, u := range ch.Workers {
		k.keepWorker(u.Record)
	}
	for _, j := range ch.NewJobs {
		k.wroteJob(j, true)
	}
	for _, u := range ch.Jobs {
		k.wroteJob(u.Record, false)
	}
	for _, s := range ch.NewSteps {
		k.wroteStep(s)
	}
	for _, u := range ch.Steps {
		k.wroteStep(u.Record)
	}
}

// wroteJob takes over a job. A job that was changed without bodies keeps those it had.
func (k *rowCache) wroteJob(j *pawl.Job, bodies bool) {
	key := j.Key()
	switch was := k.jobs[key]; {
	case lifecycle.Job.Ended(j.State):
		delete(k.jobs, key)
	case !bodies && was != nil && j.Inputs == nil && j.Metadata == nil:
		inputs, metadata := was.job.Inputs, was.job.Metadata
		was.job = *j
		jobTable.Bare(&was.job)
		was.job.Inputs, was.job.Metadata = inputs, metadata
	default:
		k.keepJob(j, bodies)
	}
}

func (k *rowCache) wroteStep(s *pawl.Step) {
	if lifecycle.Step.Ended(s.State) {
		delete(k.steps, s.StepKey)
		return
	}
	if was := k.steps[s.StepKey]; was != nil {
		*was = *s
		stepTable.Bare(was)
		return
	}
	k.keepStep(s)
}
