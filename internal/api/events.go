package api

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/access"
	"github.com/pawl-dev/pawl/internal/feed"
	"github.com/pawl-dev/pawl/machine"
)

const (
	streamEvents = "stream-events"

	maxEventStreams = 1000 // at once, by default
	maxEventsEach   = 16   // of one caller, by default

	eventTime  = 5 * time.Second  // for a client to take a piece of what is written
	eventPiece = 16 << 10         // bytes
	eventQuiet = 15 * time.Second // after which a comment is written
)

func (s *Service) eventOperations() []operation {
	return []operation{
		{id: streamEvents, method: get, path: "/api/events", role: Viewer, errors: []Slug{SlugNotFound, SlugRateLimited}, tag: "records",
			summary: "Follow what happens", detail: "Streams the moves of jobs, steps, workers, schedules and pauses of queues, for admins those of webhooks, and for admins of all workspaces those of tokens, as server-sent events, at least once: drop an (entity, sequence) that you have seen. Without a place it begins now, with the event hello. Last-Event-ID, or after, goes on from an id of this stream that is at most an hour old. The event gap says that moves are missing: read the state again. The event bye says that the server ends.",
			add: s.addEvents},
	}
}

// EventsInput selects events.
type EventsInput struct {
	OfWorkspace
	Job     string   `query:"job_id" maxLength:"64" doc:"Only of this job and its steps." example:"j_019ac1f0a3c47d5e8f00112233445566"`
	Machine []string `query:"machine" enum:"job,step,worker,schedule,queue_pause,token,webhook" doc:"Only of these machines, separated by commas."`
	Event   []string `query:"event" maxLength:"256" doc:"Only these events of the machines, separated by commas." example:"success"`
	Topics  []string `query:"topics" maxItems:"50" doc:"Only what one of these is about, separated by commas: jobs, workers, schedules, queues, approvals, machines, tokens, webhooks, or job:ID for a job and its steps."`
	After   string   `query:"after" maxLength:"8192" doc:"The id of an event: only what follows. The header Last-Event-ID comes first."`
	Last    string   `header:"Last-Event-ID" maxLength:"8192" doc:"The id of an event, as a browser sends it when it connects again."`
}

func (s *Service) eventFilter(ctx context.Context, in *EventsInput) (*pawl.EventFilter, error) {
	f := &pawl.EventFilter{Workspace: in.Workspace, Machines: in.Machine, Topics: in.Topics, After: cmp.Or(in.Last, in.After)}
	for _, event := range in.Event {
		f.Events = append(f.Events, machine.Event(event))
	}
	if in.Job != "" {
		id, err := parseID(pawl.JobPrefix, in.Job, "job")
		if err != nil {
			return nil, err
		}
		f.Job = id.Public(pawl.JobPrefix)
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	for _, job := range f.Jobs() {
		id, err := parseID(pawl.JobPrefix, job, "job")
		if err == nil {
			_, err = s.Engine.JobVersion(ctx, id) // it has to exist
		}
		if err != nil {
			return nil, err
		}
	}
	visible, err := s.Engine.Visible(ctx, *f)
	return &visible, err
}

// addEvents declares the stream, whose data are events as JSON.
func (s *Service) addEvents(to huma.API, o huma.Operation) {
	schema := newSchemas().Schema(reflect.TypeFor[pawl.Event](), false, "Event") // a component would be one that nothing refers to
	o.Responses = map[string]*huma.Response{"200": {Description: "Server-sent events. The data of the event transition is a move. The event gap has the reason, and bye ends the stream.",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString, Description: "Events, as the HTML standard describes them.",
			Extensions: map[string]any{"x-pawl-data": schema}}}}}}
	huma.Register(to, o, func(ctx context.Context, in *EventsInput) (*huma.StreamResponse, error) {
		began := s.Now()
		stream, filter, leave, err := s.openEvents(ctx, in)
		if err != nil {
			return nil, s.problem(ctx, o.OperationID, err)
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer leave()
			if s.Observe != nil { // at its begin: it may last for days
				s.Observe(o.OperationID, http.StatusOK, false, s.Now().Sub(began))
			}
			_, w := humago.Unwrap(c)
			for name, value := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"} {
				c.SetHeader(name, value)
			}
			c.SetStatus(http.StatusOK)
			if listenerOf(ctx) != "" {
				var end context.CancelFunc
				ctx, end = context.WithTimeout(ctx, eventsOf)
				defer end()
			}
			(&eventWriter{w: w, control: http.NewResponseController(w)}).write(ctx, stream, filter)
		}}, nil
	})
}

// openEvents opens a stream for a request, unless there are too many.
func (s *Service) openEvents(ctx context.Context, in *EventsInput) (stream *feed.Stream, f *pawl.EventFilter, leave func(), err error) {
	if f, err = s.eventFilter(ctx, in); err != nil {
		return nil, nil, nil, err
	}
	if s.Events == nil {
		return nil, nil, nil, pawl.Errorf(pawl.Unavailable, "this server has no events")
	}
	gone, p := s.listeners.enter(listenerOf(ctx))
	if p != nil {
		return nil, nil, nil, p
	}
	if stream, err = s.Events.Open(ctx, f.After); err != nil {
		gone()
		return nil, nil, nil, err
	}
	return stream, f, func() { stream.Close(); gone() }, nil
}

// listenerOf returns for whom the streams of a request count. Without a token that is nobody in
// particular: all come from this machine, and many people may be behind one proxy.
func listenerOf(ctx context.Context) string { return access.Of(ctx).Name }

// eventsOf is how long a stream of a token lasts. The client connects again, if the token is
// still good.
const eventsOf = 5 * time.Minute

// listeners count the open streams.
type listeners struct {
	most, each int

	mu  sync.Mutex
	all int
	of  map[string]int
}

// enter takes a place for a stream of a caller, until gone is called. An empty caller has as
// many as there are.
func (l *listeners) enter(caller string) (gone func(), p *Problem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.all >= l.most:
		p = Problemf(SlugRateLimited, "%d streams of events are open, as many as may be at once", l.all)
	case caller != "" && l.of[caller] >= l.each:
		p = Problemf(SlugRateLimited, "this caller has %d streams of events open, as many as one may have", l.of[caller])
	}
	if p != nil {
		p.RetryAfter = eventTime
		return nil, p
	}
	if l.of == nil {
		l.of = map[string]int{}
	}
	l.all++
	l.of[caller]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.all--
		if l.of[caller]--; l.of[caller] == 0 {
			delete(l.of, caller)
		}
	}, nil
}

// An eventWriter writes server-sent events. A client that takes nothing for eventTime is cut off;
// one that takes a large batch slowly is not, since each piece has a time of its own.
type eventWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	buffer  []byte    // the next piece
	due     bool      // something was added that is not flushed
	failed  error     // why the client gets nothing more
	id      string    // that was written last
	quiet   time.Time // when a comment is due
}

// write writes the events that a filter selects until ctx or the stream ends, or the client no
// longer reads.
func (e *eventWriter) write(ctx context.Context, stream *feed.Stream, f *pawl.EventFilter) {
	passed := "" // the place behind what the filter has left nothing of
	e.quiet = time.Now().Add(eventQuiet)
	if e.flush() != nil { // the client sees that the stream is open
		return
	}
	for {
		wait, cancel := context.WithDeadline(ctx, e.quiet)
		b, err := stream.Next(wait)
		quiet := wait.Err() != nil
		cancel()
		switch {
		case err == nil:
			if e.batch(b, f); e.due {
				passed = ""
			} else {
				passed = cmp.Or(b.Token, passed)
			}
		case ctx.Err() == nil && quiet: // nothing has happened
			passed = cmp.Or(stream.Token(), passed)
		default:
			e.bye()
			return
		}
		if e.settle(passed) != nil {
			return
		}
	}
}

// batch adds what a filter selects of a batch.
func (e *eventWriter) batch(b *feed.Batch, f *pawl.EventFilter) {
	switch b.Notice {
	case pawl.EventHello:
		e.event(string(b.Notice), b.Token, []byte("{}"))
	case pawl.EventGap:
		e.event(string(b.Notice), b.Token, fmt.Appendf(nil, `{"reason":%q}`, b.Gap))
	}
	list := b.Select(f)
	for i, one := range list {
		id := ""
		if i == len(list)-1 {
			id = b.Token
		}
		if e.event(string(pawl.EventTransition), id, one.JSON()); e.failed != nil {
			return
		}
	}
}

// event adds an event, with an id unless that is empty. What fills a piece is sent.
func (e *eventWriter) event(name, id string, data []byte) {
	e.due = true
	e.buffer = append(append(append(e.buffer, "event: "...), name...), '\n')
	e.place(id)
	e.buffer = append(append(append(e.buffer, "data: "...), data...), "\n\n"...)
	if len(e.buffer) >= eventPiece {
		e.send()
	}
}

func (e *eventWriter) place(id string) {
	if id != "" {
		e.buffer = append(append(append(e.buffer, "id: "...), id...), '\n')
		e.id = id
	}
}

// comment adds a line that a client ignores, and the place if that is a new one.
func (e *eventWriter) comment(place string) {
	e.due = true
	e.buffer = append(e.buffer, ":\n"...)
	if place != e.id {
		e.place(place)
	}
	e.buffer = append(e.buffer, '\n')
}

// bye tells the client to come back after a while, which differs from one to the next. A client that
// was cut off gets nothing.
func (e *eventWriter) bye() {
	e.buffer = fmt.Appendf(e.buffer, "retry: %d\n", 500+rand.IntN(2500))
	e.event("bye", "", []byte("{}"))
	_ = e.flush() // it ends anyway
}

// send sends what was added, in pieces.
func (e *eventWriter) send() {
	for left := e.buffer; e.failed == nil; {
		piece := left[:min(len(left), eventPiece)]
		if e.failed = e.control.SetWriteDeadline(time.Now().Add(eventTime)); e.failed == nil {
			_, e.failed = e.w.Write(piece)
		}
		if left = left[len(piece):]; len(left) == 0 {
			break
		}
	}
	if e.buffer = e.buffer[:0]; cap(e.buffer) > 4*eventPiece {
		e.buffer = nil
	}
}

// flush sends what was added, so that the client gets it now.
func (e *eventWriter) flush() error {
	e.send()
	if e.due = false; e.failed == nil {
		e.quiet = time.Now().Add(eventQuiet)
		e.failed = e.control.Flush()
	}
	return e.failed
}

// settle flushes what was added. If nothing was for eventQuiet, it adds a comment with a place.
func (e *eventWriter) settle(place string) error {
	if !e.due && !time.Now().Before(e.quiet) {
		e.comment(place)
	}
	if e.due {
		return e.flush()
	}
	return e.failed
}
