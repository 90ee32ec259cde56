package api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"sync"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/workflow"
)

// A submitRequest is a request that submits a job.
type submitRequest struct {
	Key
	Traceparent string `header:"traceparent" maxLength:"256" doc:"What traceparent of the body is, if that is empty."`
	Body        exchange.Submission
}

func (s *Service) submitJob(ctx context.Context, in *submitRequest) (*created, error) {
	in.Body.Traceparent = cmp.Or(in.Body.Traceparent, in.Traceparent)
	c, err := in.change(ctx, Note{RequestID: in.Body.RequestID})
	if err != nil {
		return nil, err
	}
	in.Body.RequestID = c.RequestID
	sub, err := s.asking(ctx).submission(&in.Body)
	if err != nil {
		return nil, err
	}
	done, err := s.Engine.Submit(ctx, sub)
	if err != nil {
		return nil, err
	}
	return createdJob(done[0].Receipt, done[0].Err)
}

// asked returns submissions for the engine. done has the errors of those that are refused already.
func (s *Service) asked(ctx context.Context, jobs []exchange.Submission) (subs []pawl.Submission, done []pawl.Submitted) {
	subs, done = make([]pawl.Submission, len(jobs)), make([]pawl.Submitted, len(jobs))
	a := s.asking(ctx)
	for i := range jobs {
		subs[i], done[i].Err = a.submission(&jobs[i])
	}
	return subs, done
}

// An asking reads the submissions of one request, which mostly are of the same workflow.
type asking struct {
	ctx  context.Context
	s    *Service
	last struct {
		source    string
		canonical json.RawMessage
		def       *workflow.Definition // nil: there is none yet
	}
	registered map[reference]resolved
}

// A reference names a registered workflow, as a submission does.
type reference struct{ workspace, name string }

// resolved is what a reference was found to be.
type resolved struct {
	def     *workflow.Definition
	version int
	err     error
}

func (s *Service) asking(ctx context.Context) *asking { return &asking{ctx: ctx, s: s} }

// submission returns a submission for the engine.
func (a *asking) submission(in *exchange.Submission) (sub pawl.Submission, err error) {
	sub = pawl.Submission{Workspace: cmp.Or(in.Workspace, pawl.DefaultWorkspace), Inputs: in.Inputs, Description: in.Description, Priority: in.Priority,
		Actor: ActorOf(a.ctx), RequestID: in.RequestID, Depth: in.Depth, WorkerCount: in.WorkerCount, Metadata: in.Metadata, Traceparent: in.Traceparent}
	if in.Parent != "" {
		if sub.Parent, err = pawl.ParseID(pawl.JobPrefix, in.Parent); err != nil {
			return sub, pawl.Errorf(pawl.Invalid, "parent_job_id: %v", err)
		}
	}
	if string(in.Inputs) == "null" {
		sub.Inputs = nil
	}
	var def *workflow.Definition
	if def, sub.Version, err = a.definition(sub.Workspace, in); err != nil {
		return sub, err
	}
	sub.Reference, sub.Definition = in.Workflow, def.Canonical()
	return sub, nil
}

// definition returns the definition of a submission, and its version if it is a registered one.
func (a *asking) definition(workspace string, in *exchange.Submission) (def *workflow.Definition, version int, err error) {
	given := 0
	for _, has := range [...]bool{in.Workflow != "", in.Source != "", len(in.Definition) > 0} {
		if has {
			given++
		}
	}
	switch {
	case given != 1:
		return nil, 0, pawl.Errorf(pawl.Invalid, "workflow: want one of workflow, source and definition")
	case in.Workflow != "":
		return a.lookUp(reference{workspace, in.Workflow})
	}
	def, err = a.parsed(in.Source, in.Definition)
	return def, 0, err
}

// lookUp returns a registered workflow, the same for the whole request.
func (a *asking) lookUp(of reference) (*workflow.Definition, int, error) {
	found, known := a.registered[of]
	if !known {
		found.def, found.version, found.err = a.read(of)
		if a.registered == nil {
			a.registered = make(map[reference]resolved)
		}
		a.registered[of] = found
	}
	return found.def, found.version, found.err
}

func (a *asking) read(of reference) (*workflow.Definition, int, error) {
	name, version, err := workflow.ParseReference(of.name)
	if err != nil {
		return nil, 0, err
	}
	v, def, err := a.s.Engine.Lookup(a.ctx, pawl.WorkflowName{Workspace: of.workspace, Name: name}, version)
	if err != nil {
		return nil, 0, err
	}
	return def, v.Version, nil
}

// parsed returns the definition of a text, which often is the last one.
func (a *asking) parsed(source string, canonical json.RawMessage) (*workflow.Definition, error) {
	if a.last.def != nil && a.last.source == source && bytes.Equal(a.last.canonical, canonical) {
		return a.last.def, nil
	}
	def, err := a.s.texts.parsed(source, canonical)
	if err == nil {
		a.last.source, a.last.canonical, a.last.def = source, canonical, def
	}
	return def, err
}

// parsed reads a workflow from the text of a file, or from its canonical form.
func parsed(source string, canonical json.RawMessage) (*workflow.Definition, error) {
	if source != "" {
		return workflow.Parse("source", []byte(source))
	}
	return workflow.Load(canonical)
}

// maxTexts is for how many bytes of texts definitions are kept.
const maxTexts = 16 << 20

// texts keeps the definitions of texts that were submitted, so that the same text is parsed once. It is
// emptied when it is full.
type texts struct {
	mu    sync.Mutex
	defs  map[textKey]*workflow.Definition
	bytes int // of their texts
}

// A textKey names a text by its hash: one of a file, or of a canonical form.
type textKey struct {
	source bool
	hash   [sha256.Size]byte
}

// parsed is parsed for a text that may be known.
func (t *texts) parsed(source string, canonical json.RawMessage) (*workflow.Definition, error) {
	key := textKey{hash: sha256.Sum256(canonical)}
	if source != "" {
		key = textKey{true, sha256.Sum256([]byte(source))}
	}
	t.mu.Lock()
	def := t.defs[key]
	t.mu.Unlock()
	if def != nil {
		return def, nil
	}
	def, err := parsed(source, canonical)
	if err == nil {
		t.keep(key, def, len(source)+len(canonical))
	}
	return def, err
}

func (t *texts) keep(key textKey, def *workflow.Definition, size int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.bytes += size; t.bytes > maxTexts || t.defs == nil {
		t.defs, t.bytes = make(map[textKey]*workflow.Definition), size
	}
	t.defs[key] = def
}
