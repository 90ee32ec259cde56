package api

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/client"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/crew"
	"github.com/pawl-dev/pawl/internal/feed"
	"github.com/pawl-dev/pawl/internal/health"
	"github.com/pawl-dev/pawl/internal/load/results"
	"github.com/pawl-dev/pawl/workflow"
)

// maxWaits is how many requests may wait for jobs at once by default.
const maxWaits = 1000

// Version is the version of the API. Within it operations and fields are only added.
const Version = 1

// Config is what a Service needs.
type Config struct {
	Engine  access.Source
	Program string // the version of the program
	Now     func() time.Time
	Schema  int // the version of the database's schema
	Log     *slog.Logger

	// BodyTime is how long the body of a request may take; 0: 30 s.
	BodyTime time.Duration

	// MaxWaits is how many requests may wait for jobs at once, and how many for steps; 0: 1,000.
	MaxWaits int

	// Examine examines the database as "pawl doctor" does; nil: it cannot be examined.
	Examine func(ctx context.Context) []health.Finding

	// Sockets is the folder of the control sockets of the machine's supervisors and servers;
	// empty: their services are not served.
	Sockets string

	// Crew is the crew that is served; nil: there is none.
	Crew *crew.Crew

	// Loads are the load runs that are shown; nil: none.
	Loads *results.Folder

	// LoadAgents are the load agents that are shown, and AgentTime is how long each has to reply; 0: 3 s.
	LoadAgents []LoadAgent
	AgentTime  time.Duration

	// Gate has let the callers in. nil: there is none, and nobody can sign in.
	Gate *access.Gate

	// Cookie is the name of the cookie of a session; it begins with CookiePrefix.
	Cookie string

	// Secure: browsers reach the server by HTTPS, through a proxy if not by itself.
	Secure bool

	// Login is the path at which a browser signs in with an identity provider; empty: there is
	// none.
	Login string

	// Events is where the events of the database come from. nil: there are none.
	Events *feed.Hub

	// MaxEventStreams is how many streams of events may be open at once; 0: 1,000.
	// MaxEventsEach is how many of them one caller may have; 0: 16.
	MaxEventStreams, MaxEventsEach int

	// Observe is called after each request to an operation; nil: nobody is told.
	Observe func(operation string, status int, replayed bool, took time.Duration)
}

// A Service serves the API. It is safe for concurrent use.
type Service struct {
	Config
	Engine *access.Engine // as the principal of each request sees it

	mux  *http.ServeMux
	rows map[string]*operation // the operations by the patterns of mux; nil: anybody may read it
	all  http.Handler          // mux, and problems for what it does not have
	huma huma.API

	examiner  *examiner
	stuck     stuckLists
	texts     texts
	listeners listeners
	verifier  verifier
	waiting   chan struct{} // one for each request that waits for a job
	streaming chan struct{} // one for each stream of records
	flowing   chan struct{} // one for each stream of bytes
	exploring chan struct{} // one for each definition that is explored
	polling   chan struct{} // one for each that waits for steps

	evaluating *places // of results of loads that are evaluated
	scanning   *places // of those of which something is read line by line
}

// New returns a service on an engine.
func New(c Config) *Service {
	s := &Service{Config: c, Engine: access.Scope(c.Engine), mux: http.NewServeMux(), rows: map[string]*operation{},
		examiner: &examiner{examine: c.Examine, now: c.Now, busy: make(chan struct{}, 1)}, stuck: stuckLists{now: c.Now},
		waiting: make(chan struct{}, cmp.Or(c.MaxWaits, maxWaits)), polling: make(chan struct{}, cmp.Or(c.MaxWaits, maxWaits)), streaming: make(chan struct{}, maxStreams), flowing: make(chan struct{}, maxByteStreams), exploring: make(chan struct{}, maxExplored),
		evaluating: newPlaces(maxEvaluated, maxEvaluatedOfRun), scanning: newPlaces(maxScanned, maxScannedOfRun), listeners: listeners{most: cmp.Or(c.MaxEventStreams, maxEventStreams), each: cmp.Or(c.MaxEventsEach, maxEventsEach)}}
	setup()
	s.huma = humago.New(s.mux, s.settings())
	s.huma.UseMiddleware(s.observed)
	for _, o := range s.operations() {
		s.declare(&o)
	}
	s.documents()
	s.all = s.authorise(NotFound(s.mux))
	return s
}

// severalTimes is the parameter that may be given several times, since its values may have
// commas.
const severalTimes = "metadata"

// ServeHTTP serves one request.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	for name, values := range r.URL.Query() {
		if len(values) > 1 && name != severalTimes {
			Problemf(SlugInvalid, "query.%s: it is given %d times: want it once, with commas between several values", name, len(values)).Write(w)
			return
		}
	}
	s.all.ServeHTTP(w, r)
}

// observed tells the observer of a request.
func (s *Service) observed(c huma.Context, next func(huma.Context)) {
	if s.Observe == nil {
		next(c)
		return
	}
	noted := &replies{humaContext: c}
	began := s.Now()
	defer func() {
		status := c.Status()
		if status == 0 { // it has panicked
			status = http.StatusInternalServerError
		}
		if id := c.Operation().OperationID; id != streamEvents || status != http.StatusOK { // that is observed when it begins
			s.Observe(id, status, noted.replayed, s.Now().Sub(began))
		}
	}()
	next(noted)
}

// replies notes whether the answer is a replay.
type replies struct {
	humaContext
	replayed bool
}

// humaContext has a name of its own, since the interface has a method Context.
type humaContext = huma.Context

// Unwrap is for humago.Unwrap.
func (r *replies) Unwrap() huma.Context { return r.humaContext }

// SetHeader notes the header of a replay.
func (r *replies) SetHeader(name, value string) {
	r.replayed = r.replayed || name == "Idempotency-Replayed" && value != ""
	r.humaContext.SetHeader(name, value)
}

// setup sets what the HTTP library keeps in variables of its package.
var setup = sync.OnceFunc(func() {
	huma.DefaultArrayNullable, huma.ValidateStrictCasing = false, true
	huma.NewError = faultOf
	huma.NewErrorWithContext = func(_ huma.Context, status int, message string, errs ...error) huma.StatusError {
		return faultOf(status, message, errs...)
	}
})

// maxFaults is how many faults of a request its problem names.
const maxFaults = 100

// faultOf returns the problem for what the HTTP library finds wrong with a request.
func faultOf(status int, message string, errs ...error) huma.StatusError {
	p := Problemf(slugByStatus[status], "%s", message)
	for _, err := range errs[:min(len(errs), maxFaults)] {
		var at huma.ErrorDetailer
		if errors.As(err, &at) {
			d := at.ErrorDetail()
			p.Errors = append(p.Errors, Fault{Location: d.Location, Message: d.Message})
		}
	}
	if len(p.Errors) > 0 {
		p.Detail = p.Errors[0].Location + ": " + p.Errors[0].Message
	}
	return p
}

// slugByStatus are the kinds of what the HTTP library finds wrong, by status.
var slugByStatus = map[int]Slug{
	http.StatusBadRequest:            SlugMalformed,
	http.StatusRequestTimeout:        SlugMalformed,
	http.StatusRequestEntityTooLarge: SlugTooLarge,
	http.StatusUnsupportedMediaType:  SlugUnsupportedMediaType,
	http.StatusUnprocessableEntity:   SlugInvalid,
}

// problem returns the problem for the error of an operation. What is not the caller's
// fault is logged, under an id that the problem has.
func (s *Service) problem(ctx context.Context, operation string, err error) *Problem {
	p := problemOf(ctx, err)
	s.log(ctx, operation, p, err)
	return p
}

// problemOf is problem without a line in the log.
func problemOf(ctx context.Context, err error) *Problem {
	p := Of(err)
	var faults workflow.Problems
	if errors.As(err, &faults) {
		for i := range faults[:min(len(faults), maxFaults)] {
			p.Errors = append(p.Errors, Fault{Location: cmp.Or(faults[i].Key, "source"), Message: faults[i].String()})
		}
	}
	if p.Status == http.StatusInternalServerError {
		p.RequestID = RequestIDOf(ctx)
	}
	return p
}

// log logs an error that is a problem of the server.
func (s *Service) log(ctx context.Context, operation string, p *Problem, err error) {
	switch p.Status {
	case http.StatusServiceUnavailable:
		s.Log.Debug("a request was refused for now", "operation", operation, "request_id", RequestIDOf(ctx), "error", err)
	case http.StatusInternalServerError:
		s.Log.Error("a request has failed", "operation", operation, "request_id", p.RequestID, "error", err)
	}
}

// settings returns the settings of the HTTP library.
func (s *Service) settings() huma.Config {
	c := huma.DefaultConfig("Pawl", s.Program)
	c.DocsPath, c.SchemasPath, c.OpenAPIPath, c.CreateHooks = "", "", "", nil
	c.RejectUnknownQueryParameters = true
	c.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON}
	c.Components.Schemas = newSchemas()
	c.Info.Description = description
	c.Components.SecuritySchemes = schemes(cmp.Or(s.Cookie, CookiePrefix))
	c.Info.License = &huma.License{Name: "Apache-2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"}
	c.Tags = tags
	c.Servers = []*huma.Server{{URL: "/", Description: "this server"}}
	return c
}

// client returns a client for one request, with a workspace for what names none.
func (s *Service) client(ctx context.Context, workspace string) *client.Client {
	return client.Over(s.Engine, client.Config{Workspace: cmp.Or(workspace, pawl.DefaultWorkspace), Actor: ActorOf(ctx)}, nil)
}
