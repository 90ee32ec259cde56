package engine

import (
	"encoding/json"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/workflow"
)

// maxRemembered bounds the bytes of outputs, items and inputs in one generation of a
// memory. There are two generations, and the garbage collector lets the heap double, so a
// process needs four times as much.
const maxRemembered = 16 << 20

// A memory caches facts that rarely change, for jobs that this process works on:
// definition, inputs, and outputs of ended steps. It saves reads; nothing depends on its
// contents. It forgets a job that has ended, and evicts others by generation: a job not
// used for a whole generation is dropped.
type memory struct {
	mu         sync.Mutex
	young, old map[rowkey.Job]*remembered
	bytes      int // of young
}

type remembered struct {
	*jobFacts
	size    int // in bytes, of everything kept of the job
	outputs map[pawl.Ord]json.RawMessage
	items   map[pawl.Ord][]json.RawMessage // of fan-outs
}

// jobFacts are facts of a job that rarely change. They are immutable: new facts replace
// them.
type jobFacts struct {
	id     pawl.ID
	def    *workflow.Definition
	slots  int          // how many of its steps run at once, as set by the definition or a quota
	parent pawl.StepKey // the step that waits for the job, if it is a child
	old    rowkey.Job   // the job that it continues
	meta   json.RawMessage
	inputs json.RawMessage // nil: not known
}

func newMemory() *memory { return &memory{young: make(map[rowkey.Job]*remembered)} }

// find returns what is known of a job, and moves it to the young generation. The caller
// holds the lock.
func (m *memory) find(job rowkey.Job) *remembered {
	if r := m.young[job]; r != nil {
		return r
	}
	r := m.old[job]
	if r != nil {
		delete(m.old, job)
		m.add(job, r)
	}
	return r
}

// add puts a job into the young generation. If that exceeds the limit, the young generation
// becomes the old one, except for this job, of which only the small facts are kept.
func (m *memory) add(job rowkey.Job, r *remembered) {
	m.young[job] = r
	if m.bytes += r.size; m.bytes <= maxRemembered {
		return
	}
	delete(m.young, job)
	r.outputs, r.items, r.size = nil, nil, r.least()
	m.old, m.young, m.bytes = m.young, map[rowkey.Job]*remembered{job: r}, r.size
}

// least is the size of a job without outputs and items.
func (r *remembered) least() int { return 512 + len(r.inputs) + len(r.meta) }

// grow makes a young job larger.
func (m *memory) grow(job rowkey.Job, r *remembered, size int) {
	m.bytes -= r.size
	r.size += size
	m.add(job, r)
}

func (m *memory) get(job rowkey.Job) (*jobFacts, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.find(job); r != nil {
		return r.jobFacts, true
	}
	return nil, false
}

// put remembers a job, and returns its facts. Inputs that are nil are unknown.
func (m *memory) put(j *pawl.Job, def *workflow.Definition) *jobFacts {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := j.Key()
	r := m.find(key)
	if r != nil && r.def == def && r.slots == j.WorkerCount && j.Inputs == nil {
		return r.jobFacts
	}
	facts := &jobFacts{id: j.ID, def: def, slots: j.WorkerCount, parent: parentOf(j), old: j.Continues}
	switch {
	case j.Inputs != nil:
		facts.inputs, facts.meta = j.Inputs, j.Metadata
	case r != nil && r.def.Hash() == def.Hash(): // else the job has moved to another version, which binds the inputs again
		facts.inputs, facts.meta = r.inputs, r.meta
	}
	if r == nil {
		r = &remembered{jobFacts: facts}
		r.size = r.least()
		m.add(key, r)
		return facts
	}
	before := r.least()
	r.jobFacts = facts
	m.grow(key, r, r.least()-before)
	return facts
}

// keep remembers a job again if it was evicted since its facts were read.
func (m *memory) keep(f *jobFacts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := f.id.JobKey()
	if m.find(key) == nil {
		r := &remembered{jobFacts: f}
		r.size = r.least()
		m.add(key, r)
	}
}

// forget drops a job that has ended, and returns its facts, or nil.
func (m *memory) forget(job rowkey.Job) *jobFacts {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.young[job]
	if r != nil {
		m.bytes -= r.size
		delete(m.young, job)
	} else if r = m.old[job]; r == nil {
		return nil
	}
	delete(m.old, job)
	return r.jobFacts
}

// output returns the output of an ended step, if it is known.
func (m *memory) output(k pawl.StepKey) (json.RawMessage, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.find(k.Job)
	if r == nil {
		return nil, false
	}
	out, ok := r.outputs[k.Ord]
	return out, ok
}

// putOutput remembers the output of an ended step of a known job.
func (m *memory) putOutput(k pawl.StepKey, output json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.find(k.Job)
	if r == nil {
		return
	}
	if r.outputs == nil {
		r.outputs = make(map[pawl.Ord]json.RawMessage)
	}
	before := len(r.outputs[k.Ord])
	r.outputs[k.Ord] = output
	m.grow(k.Job, r, len(output)-before)
}

// items returns the list of a fan-out, if it is known.
func (m *memory) items(k pawl.StepKey) []json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.find(k.Job); r != nil {
		return r.items[k.Ord]
	}
	return nil
}

func (m *memory) putItems(k pawl.StepKey, items []json.RawMessage, size int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.find(k.Job)
	if r == nil {
		return
	}
	if r.items == nil {
		r.items = make(map[pawl.Ord][]json.RawMessage)
	}
	if r.items[k.Ord] == nil {
		r.items[k.Ord] = items
		m.grow(k.Job, r, size)
	}
}
