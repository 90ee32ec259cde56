package engine

import (
	"encoding/json"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/workflow"
)

// maxRemembered bounds the bytes of what one generation of a memory keeps.
const maxRemembered = 32 << 20

// A memory keeps facts that never change, of jobs that this process works on:
// definition, inputs, and outputs of ended steps. It saves reads; nothing
// depends on what it holds. It forgets by generations: what was not used for a
// generation is gone.
type memory struct {
	mu         sync.Mutex
	young, old map[int64]*remembered
	bytes      int // of young
}

type remembered struct {
	id      pawl.ID
	def     *workflow.Definition
	meta    json.RawMessage
	inputs  json.RawMessage // nil: not known
	outputs map[pawl.Ord]json.RawMessage
	items   map[pawl.Ord][]json.RawMessage // of fan-outs
}

func newMemory() *memory { return &memory{young: make(map[int64]*remembered)} }

// find answers what is known of a job, making it young again. The lock is held.
func (m *memory) find(job int64) *remembered {
	if r := m.young[job]; r != nil {
		return r
	}
	r := m.old[job]
	if r != nil {
		m.add(job, r, 512+len(r.inputs))
	}
	return r
}

func (m *memory) add(job int64, r *remembered, size int) {
	if m.bytes += size; m.bytes > maxRemembered {
		m.old, m.young, m.bytes = m.young, make(map[int64]*remembered), size
	}
	m.young[job] = r
}

func (m *memory) get(job int64) (remembered, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.find(job); r != nil {
		return remembered{id: r.id, def: r.def, meta: r.meta, inputs: r.inputs}, true
	}
	return remembered{}, false
}

// put remembers a job. Inputs that are nil are not known.
func (m *memory) put(j *pawl.Job, def *workflow.Definition) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := j.Key()
	r := m.find(key)
	if r == nil {
		r = &remembered{id: j.ID, def: def}
		m.add(key, r, 512+len(j.Inputs))
	}
	if j.Inputs != nil {
		r.inputs, r.meta = j.Inputs, j.Metadata
	}
}

// output answers the output of an ended step, if it is known.
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
	r.outputs[k.Ord] = output
	m.add(k.Job, r, len(output))
}

// items answers the list of a fan-out, if it is known.
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
	r.items[k.Ord] = items
	m.add(k.Job, r, size)
}
