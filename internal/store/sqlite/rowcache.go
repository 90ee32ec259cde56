package sqlite

import (
	"encoding/json"
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
// connection commits, which SQLite reports, or this one commits outside Do. It keeps the
// records that it has read or a commit has written, never changes them, and returns copies.
type rowCache struct {
	version int64 // of the data, as this connection sees it
	jobs    map[rowkey.Job]cachedJob
	steps   map[pawl.StepKey]*pawl.Step
	workers map[rowkey.Worker]*pawl.Worker
}

type cachedJob struct {
	job              *pawl.Job // its bodies do not count
	bodies           bool      // with inputs and metadata
	inputs, metadata json.RawMessage
}

func newRowCache() *rowCache {
	return &rowCache{jobs: map[rowkey.Job]cachedJob{}, steps: map[pawl.StepKey]*pawl.Step{}, workers: map[rowkey.Worker]*pawl.Worker{}}
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
	if known.job == nil {
		return nil
	}
	j := *known.job
	jobTable.Bare(&j)
	return &j
}

// jobInputs returns a job with its inputs and metadata, or nil.
func (k *rowCache) jobInputs(key rowkey.Job) *pawl.Job {
	j, known := k.job(key), k.jobs[key]
	if !known.bodies {
		return nil
	}
	j.Inputs, j.Metadata = slices.Clone(known.inputs), slices.Clone(known.metadata)
	return j
}

func (k *rowCache) step(key pawl.StepKey) *pawl.Step {
	known := k.steps[key]
	if known == nil {
		return nil
	}
	s := *known
	stepTable.Bare(&s)
	return &s
}

func (k *rowCache) worker(key rowkey.Worker) *pawl.Worker {
	known := k.workers[key]
	if known == nil {
		return nil
	}
	return cloneWorker(known)
}

// readJob keeps a job that was read, with its bodies if they were. It is a copy, since the
// transaction may change the job.
func (k *rowCache) readJob(j *pawl.Job, bodies bool) {
	c := *j
	jobTable.Bare(&c)
	known := known(&c, j, bodies)
	known.inputs, known.metadata = slices.Clone(known.inputs), slices.Clone(known.metadata)
	k.jobs[j.Key()] = known
}

// known returns what is kept of j, with its bodies if they are short. record is kept without
// regard to its bodies.
func known(record, j *pawl.Job, bodies bool) cachedJob {
	if !bodies || len(j.Inputs)+len(j.Metadata) > cachedBodyLength {
		return cachedJob{job: record}
	}
	return cachedJob{record, true, j.Inputs, j.Metadata}
}

func (k *rowCache) readStep(s *pawl.Step) {
	c := *s
	stepTable.Bare(&c)
	k.steps[s.StepKey] = &c
}

// light returns a record to be kept: the one that was written, unless its bodies are long.
func light[R any](t *table[R], r *R, length int, f *pawl.Failure) *R {
	if length <= cachedBodyLength && f == nil {
		return r
	}
	c := *r
	t.Bare(&c)
	return &c
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
	if lifecycle.Job.Ended(j.State) {
		delete(k.jobs, key)
		return
	}
	record := light(jobTable, j, len(j.Inputs)+len(j.Output)+len(j.Metadata), j.Error)
	was := k.jobs[key]
	if bodies || was.job == nil || j.Inputs != nil || j.Metadata != nil {
		k.jobs[key] = known(record, j, bodies)
		return
	}
	was.job = record
	k.jobs[key] = was
}

func (k *rowCache) wroteStep(s *pawl.Step) {
	if lifecycle.Step.Ended(s.State) {
		delete(k.steps, s.StepKey)
		return
	}
	k.steps[s.StepKey] = light(stepTable, s, len(s.Input)+len(s.Output), s.Error)
}
