package api

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl"
)

// An InWorkspace names the workspace of what a path names.
type InWorkspace struct {
	Workspace string `query:"workspace_id" default:"default" maxLength:"128" doc:"The workspace."`
}

// An OfWorkspace restricts a list to a workspace.
type OfWorkspace struct {
	Workspace string `query:"workspace_id" maxLength:"128" doc:"Only of this workspace. Default: of all."`
}

// A Window is which page of a list is read.
type Window struct {
	Limit  int    `query:"limit" minimum:"1" maximum:"100" default:"50" doc:"How many, at most. A page may be shorter, though there is a next one."`
	Cursor string `query:"cursor" maxLength:"2048" doc:"next of the page before, with the same other parameters."`
}

// A page is a part of a list.
type page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"The cursor of the next page. Absent: this is the last one."`
}

// A body is an answer with a body.
type body[T any] struct{ Body T }

// A versioned is a response whose body has a version, which a later change may require.
type versioned[T any] struct {
	ETag string `header:"ETag" doc:"For If-Match: it changes with each change of the record."`
	Body T
}

// A receipt is the answer to a command.
type receipt struct {
	Replayed string `header:"Idempotency-Replayed" doc:"true: the response is that to an earlier request with the same key."`
	Body     pawl.Receipt
}

func receiptOf(r pawl.Receipt, err error) (*receipt, error) {
	if err != nil {
		return nil, err
	}
	return &receipt{replayedHeader(r.Replayed), r}, nil
}

func replayedHeader(is bool) string {
	if is {
		return "true"
	}
	return ""
}

// A Key is the key of a request in the header.
type Key struct {
	Key string `header:"Idempotency-Key" maxLength:"255" doc:"The request's key, if the body has no request_id: 1 to 255 visible ASCII characters."`
}

// An IfMatch restricts a change to a version of what it names.
type IfMatch struct {
	Match string `header:"If-Match" maxLength:"64" doc:"The ETag that it has to have. Otherwise the response is 412, and nothing has changed."`
}

// version returns the version that a change is restricted to, or 0.
func (m *IfMatch) version() (int64, error) {
	if m.Match == "" {
		return 0, nil
	}
	text, err := strconv.Unquote(m.Match)
	if err == nil {
		var n int64
		if n, err = strconv.ParseInt(text, 10, 64); err == nil && n > 0 && m.Match == quoted(n) {
			return n, nil
		}
	}
	return 0, pawl.Errorf(pawl.Invalid, "header.If-Match: %.64q: want one ETag, as the record has been read with", m.Match)
}

// A Note is what every command may say in its body.
type Note struct {
	Reason    string `json:"reason,omitempty" maxLength:"4096" doc:"Why, for the audit trail."`
	RequestID string `json:"request_id,omitempty" maxLength:"255" doc:"The request's key: 1 to 255 visible ASCII characters."`
}

// change returns who asks for a command, why, and under which key.
func (k Key) change(ctx context.Context, n Note) (pawl.Change, error) {
	if k.Key != "" && n.RequestID != "" && k.Key != n.RequestID {
		return pawl.Change{}, pawl.Errorf(pawl.Invalid, "request_id %q: the header Idempotency-Key has %q: want one of them, or the same", n.RequestID, k.Key)
	}
	return pawl.Change{Actor: ActorOf(ctx), Reason: n.Reason, RequestID: cmp.Or(n.RequestID, k.Key)}, nil
}

// A Command is the input of a command that has no arguments.
type Command struct {
	Key
	Body *Note `required:"false"`
}

func (c *Command) change(ctx context.Context) (pawl.Change, error) {
	return c.Key.change(ctx, given(c.Body))
}

// given returns the value of a body that may be missing.
func given[T any](b *T) (v T) {
	if b != nil {
		v = *b
	}
	return v
}

// parseID reads an id from a path: what is none names nothing.
func parseID(prefix, text, what string) (pawl.ID, error) {
	id, err := pawl.ParseID(prefix, text)
	if err != nil {
		return id, &pawl.Error{Kind: pawl.NotFound, Message: fmt.Sprintf("there is no %s %q", what, text), Hint: err.Error()}
	}
	return id, nil
}

// A JobPath names a job.
type JobPath struct {
	ID string `path:"id" doc:"The id of a job." example:"j_019ac1f0a3c47d5e8f00112233445566"`
}

func (p *JobPath) job() (pawl.ID, error) { return parseID(pawl.JobPrefix, p.ID, "job") }

// A StepPath names a step.
type StepPath struct {
	ID string `path:"id" doc:"The id of a step." example:"st_019ac1f0a3c47d5e8f00112233445566"`
}

// A WorkerPath names a worker.
type WorkerPath struct {
	ID string `path:"id" doc:"The id of a worker." example:"w_019ac1f0a3c47d5e8f00112233445566"`
}

func (p *WorkerPath) worker() (pawl.ID, error) { return parseID(pawl.WorkerPrefix, p.ID, "worker") }

// A NamePath names a workflow, a schedule, a queue or a limit.
type NamePath struct {
	Name string `path:"name" doc:"Its name." example:"nightly"`
}

// An AtMoment is a moment of the past of a job.
type AtMoment struct {
	At  time.Time `query:"at" doc:"As it was at this time."`
	Seq int64     `query:"seq" minimum:"1" doc:"As it was at this sequence of the job's own trail."`
}

// moment returns the moment; the zero value is now.
func (m *AtMoment) moment() (pawl.Moment, error) {
	at := pawl.Moment{Time: stamp(m.At), Sequence: m.Seq}
	if at.Time != 0 && at.Sequence != 0 {
		return at, pawl.Errorf(pawl.Invalid, "at: want one of at and seq")
	}
	return at, nil
}

// Fields say how much of each item a list has.
type Fields struct {
	Fields string `query:"fields" enum:"summary" doc:"summary: without bodies, which are then not read."`
}

func (f *Fields) summary() bool { return f.Fields == "summary" }
