package api

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
)

// A Role is what a caller has to have. Operator includes Viewer, and Admin all others.
type Role = pawl.Role

// The roles. A caller who has Worker and neither Operator nor Admin acts for its own worker
// only.
const (
	Anybody  Role = "anybody" // without a token, too
	Viewer        = pawl.RoleViewer
	Operator      = pawl.RoleOperator
	Admin         = pawl.RoleAdmin
	Worker        = pawl.RoleWorker
)

// A repetition says what happens when a request is sent again.
type repetition int

const (
	reads        repetition = iota // it changes nothing
	replayed                       // with the same key its answer is replayed (J8)
	once                           // with the same key it is refused: its answer is stored nowhere
	replayedEach                   // the same for each item, which has a key made of the request's
	settles                        // it leaves the same state
	again                          // it acts again, and does no harm
	fenced                         // its claim, turn or offset refuses a second copy, or knows it
)

// An operation is a row of the table of operations.
type operation struct {
	id     string
	method string
	path   string
	role   Role

	// It is about all workspaces, so the caller needs them all.
	everywhere bool

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
	mine := o.errors
	if o.role != Anybody {
		mine = append([]Slug{SlugUnauthenticated, SlugRateLimited}, mine...)
	}
	for _, e := range slices.Concat(common, mine) {
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
		Security:   []map[string][]string{{"token": {}}, {"session": {}}, {"certificate": {}}, {}}, // {}: on the loopback interface, unless tokens are required there
		Extensions: map[string]any{"x-pawl-role": string(o.role)},
	}
	if o.role == Anybody {
		d.Security = []map[string][]string{{}}
	}
	if o.everywhere {
		d.Extensions["x-pawl-all-workspaces"] = true
		d.Description += " It needs a token of all workspaces."
	}
	if len(o.good) > 0 {
		d.DefaultStatus = o.good[0]
	}
	switch o.repeat {
	case once:
		d.Description += "\n\nA repeated request with the same request_id, or Idempotency-Key, is 409: it has no second effect, and its response is not stored."
	case replayed:
		d.Description += "\n\nA repeated request with the same request_id, or Idempotency-Key, gets the same response for an hour."
	}
	return d
}

// schemes returns the ways to say who calls, with the name of the cookie of this server.
func schemes(cookie string) map[string]*huma.SecurityScheme {
	return map[string]*huma.SecurityScheme{
		"token": {Type: "http", Scheme: "bearer",
			Description: "The secret of a token, as \"pawl token create\" shows it. On the loopback interface none is needed, unless the server requires it."},
		"session": {Type: "apiKey", In: "cookie", Name: cookie,
			Description: "The cookie of a session, which signing in sets."},
		"certificate": {Type: "mutualTLS",
			Description: "A client certificate that a token is for, where the server is told what signs them with --tls-client-ca."},
	}
}

// declare adds an operation to the service, and its other statuses to the document.
func (s *Service) declare(o *operation) {
	d := o.described()
	d.BodyReadTimeout = cmp.Or(s.BodyTime, bodyTime)
	o.add(s.huma, d)
	s.rows[o.method+" "+o.path] = o
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
	{Name: "exchange", Description: "What a worker calls that reaches the database through a server. See docs/workers.md."},
	{Name: "tokens", Description: "Tokens, by which programs use this server."},
	{Name: "session", Description: "Signing in with a browser. See docs/access.md."},
	{Name: "webhooks", Description: "Webhooks, which send events to URLs. See docs/webhooks.md."},
	{Name: "resources", Description: "Limits of queues and of depths of jobs."},
	{Name: "crew", Description: "The crew of a repository on the server's machine, if the server was started with one: coding agents on branches of their own. It belongs to no workspace."},
	{Name: "load", Description: "Load runs and load agents, if the server was started with a folder of results. They belong to no workspace."},
	{Name: "services", Description: "The services of supervisors and servers on the server's machine. They belong to no workspace."},
	{Name: "records", Description: "State machines, and what is kept of the past."},
	{Name: "server", Description: "About this server."},
}

const description = "Pawl runs workflows as explicit state machines. Every error is a problem document (RFC 9457)."

// operations is the table.
func (s *Service) operations() []operation {
	return slices.Concat(s.aboutOperations(), s.jobOperations(), s.stepOperations(), s.workflowOperations(),
		s.scheduleOperations(), s.tokenOperations(), s.sessionOperations(), s.webhookOperations(), s.workerOperations(), s.exchangeOperations(), s.resourceOperations(), s.recordOperations(), s.eventOperations(),
		s.serviceOperations(), s.rehearsalOperations(), s.detailOperations(), s.bulkOperations(), s.overviewOperations(), s.stepLogOperations(), s.checkOperations(), s.crewOperations(), s.loadOperations())
}

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
	del  = http.MethodDelete
)
