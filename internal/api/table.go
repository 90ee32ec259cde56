package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

// A Role is what a caller may do. Each role beside Worker includes those before it.
type Role string

// The roles.
const (
	Anybody  Role = "anybody"  // without a token, too
	Viewer   Role = "viewer"   // reads
	Operator Role = "operator" // changes jobs, steps, schedules, workers
	Admin    Role = "admin"    // sets limits, removes records
)

// A repetition says what happens when a request is sent again.
type repetition int

const (
	reads        repetition = iota // it changes nothing
	replayed                       // with the same key its answer is replayed (J8)
	replayedEach                   // the same for each item, which has its own key
	settles                        // it leaves the same state
)

// An operation is a row of the table of operations.
type operation struct {
	id      string
	method  string
	path    string
	role    Role
	repeat  repetition
	good    []int  // the statuses of its success, the usual one first; none: 200
	errors  []Slug // beside those of every operation
	tag     string
	summary string
	detail  string
	add     func(huma.API, huma.Operation)
}

// bodyTime is how long a body may take by default.
const bodyTime = 30 * time.Second

// common are the errors that every operation may answer.
var common = []Slug{SlugMalformed, SlugNotAllowed, SlugNoSuchOperation, SlugTooLarge, SlugUnsupportedMediaType, SlugInvalid, SlugInternal, SlugUnavailable}

// does makes the function of an operation one of the HTTP library.
func does[I, O any](s *Service, do func(context.Context, *I) (*O, error)) func(huma.API, huma.Operation) {
	return func(to huma.API, o huma.Operation) {
		huma.Register(to, o, func(ctx context.Context, in *I) (*O, error) {
			out, err := do(ctx, in)
			if err != nil {
				return nil, s.problem(ctx, o.OperationID, err)
			}
			return out, nil
		})
	}
}

// statuses returns the statuses of the errors that an operation may answer, ascending.
func (o *operation) statuses() []int {
	var all []int
	for _, e := range slices.Concat(common, o.errors) {
		all = append(all, e.kind().Status)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// described returns the operation for the document.
func (o *operation) described() huma.Operation {
	d := huma.Operation{
		OperationID: o.id, Method: o.method, Path: o.path, Tags: []string{o.tag}, Summary: o.summary, Description: o.detail,
		Errors: o.statuses(), MaxBodyBytes: maxBody,
		Security:   []map[string][]string{{}},
		Extensions: map[string]any{"x-pawl-role": string(o.role)},
	}
	if len(o.good) > 0 {
		d.DefaultStatus = o.good[0]
	}
	switch o.repeat {
	case replayedEach:
		d.Description += "\n\nEach item may have a request_id of its own; the header Idempotency-Key is refused."
	case replayed:
		d.Description += "\n\nA repeated request with the same request_id, or Idempotency-Key, gets the same answer for an hour."
	}
	return d
}

// declare adds an operation to the service, and its other statuses to the document.
func (s *Service) declare(o *operation) {
	d := o.described()
	d.BodyReadTimeout = cmp.Or(s.BodyTime, bodyTime)
	o.add(s.huma, d)
	if len(o.good) < 2 {
		return
	}
	item := s.huma.OpenAPI().Paths[o.path]
	responses := map[string]*huma.Operation{get: item.Get, post: item.Post}[o.method].Responses
	for _, status := range o.good[1:] {
		r := *responses[strconv.Itoa(o.good[0])]
		if r.Description = http.StatusText(status); status == http.StatusNotModified {
			r.Content = nil
		}
		responses[strconv.Itoa(status)] = &r
	}
}

// tags group the operations.
var tags = []*huma.Tag{
	{Name: "jobs", Description: "Jobs: runs of a workflow."},
	{Name: "steps", Description: "Single steps of jobs, and approvals."},
	{Name: "workflows", Description: "Registered workflows and their versions."},
	{Name: "schedules", Description: "Jobs at the times of cron expressions."},
	{Name: "workers", Description: "Workers: processes that run steps."},
	{Name: "resources", Description: "Limits of queues and of depths of jobs."},
	{Name: "records", Description: "State machines, and what is kept of the past."},
	{Name: "server", Description: "About this server."},
}

const description = "Pawl runs workflows as explicit state machines. Every error is a problem document (RFC 9457)."

// operations is the table.
func (s *Service) operations() []operation {
	return slices.Concat(s.aboutOperations(), s.jobOperations(), s.stepOperations(), s.workflowOperations(),
		s.scheduleOperations(), s.workerOperations(), s.resourceOperations(), s.recordOperations(), s.eventOperations())
}

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
	del  = http.MethodDelete
)
