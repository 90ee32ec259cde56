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

// submissions returns submissions for the engine. done has the errors of those that are refused already.
func (a *asking) submissions(jobs []exchange.Submission) (subs []pawl.Submission, done []pawl.Submitted) {
	subs, done = make([]pawl.Submission, len(jobs)), make([]pawl.Submitted, len(jobs))
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
		source     string
		definition json.RawMessage
		canonical  []byte // nil: there is none yet
	}
	registered map[reference]resolved
}

// A reference names a registered workflow, as a submission does.
type reference struct{ workspace, name string }

// resolved is what a reference was found to be.
type resolved struct {
	canonical []byte
	version   int
	err       error
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
	sub.Reference = in.Workflow
	sub.Definition, sub.Version, err = a.definition(sub.Workspace, in)
	return sub, err
}

// definition returns the definition of a submission in its canonical form, and its version if it is a
// registered one.
func (a *asking) definition(workspace string, in *exchange.Submission) (canonical []byte, version int, err error) {
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
	canonical, err = a.parsed(in.Source, in.Definition)
	return canonical, 0, err
}

// lookUp returns a registered workflow, the same for the whole request.
func (a *asking) lookUp(of reference) (canonical []byte, version int, err error) {
	found, known := a.registered[of]
	if !known {
		found.canonical, found.version, found.err = a.read(of)
		if a.registered == nil {
			a.registered = make(map[reference]resolved)
		}
		a.registered[of] = found
	}
	return found.canonical, found.version, found.err
}

func (a *asking) read(of reference) (canonical []byte, version int, err error) {
	name, version, err := workflow.ParseReference(of.name)
	if err != nil {
		return nil, 0, err
	}
	v, def, err := a.s.Engine.Lookup(a.ctx, pawl.WorkflowName{Workspace: of.workspace, Name: name}, version)
	if err != nil {
		return nil, 0, err
	}
	return def.Canonical(), v.Version, nil
}

// parsed returns the canonical form of a text, which often is the last one.
func (a *asking) parsed(source string, definition json.RawMessage) ([]byte, error) {
	if a.last.canonical != nil && a.last.source == source && bytes.Equal(a.last.definition, definition) {
		return a.last.canonical, nil
	}
	canonical, err := a.s.texts.parsed(source, definition)
	if err == nil {
		a.last.source, a.last.definition, a.last.canonical = source, definition, canonical
	}
	return canonical, err
}

// parsed reads a workflow from the text of a file, or from its canonical form.
func parsed(source string, definition json.RawMessage) (*workflow.Definition, error) {
	if source != "" {
		return workflow.Parse("source", []byte(source))
	}
	return workflow.Load(definition)
}

const (
	maxTexts = 16 << 20 // bytes of texts that are kept
	textRoom = 256      // bytes that a text costs beside its canonical form, at most
)

// texts keeps the canonical forms of texts that were submitted, so that the same text is parsed once; the
// engine keeps definitions. It is emptied when it is full.
type texts struct {
	mu    sync.Mutex
	of    map[textKey][]byte
	bytes int
}

// A textKey names a text by its hash: one of a file, or of a canonical form.
type textKey struct {
	source bool
	hash   [sha256.Size]byte
}

// parsed returns the canonical form of a text, which may be known.
func (t *texts) parsed(source string, definition json.RawMessage) ([]byte, error) {
	key := textKey{hash: sha256.Sum256(definition)}
	if source != "" {
		key = textKey{true, sha256.Sum256([]byte(source))}
	}
	t.mu.Lock()
	canonical := t.of[key]
	t.mu.Unlock()
	if canonical != nil {
		return canonical, nil
	}
	def, err := parsed(source, definition)
	if err != nil {
		return nil, err
	}
	return t.keep(key, def.Canonical()), nil
}

// keep keeps the canonical form of a text, unless another caller has. It returns the one that is kept.
func (t *texts) keep(key textKey, canonical []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.of[key]; known != nil {
		return known
	}
	size := len(canonical) + textRoom
	if t.bytes += size; t.bytes > maxTexts || t.of == nil {
		t.of, t.bytes = make(map[textKey][]byte), size
	}
	canonical = bytes.Clone(canonical) // alone
	t.of[key] = canonical
	return canonical
}
