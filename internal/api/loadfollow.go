package api

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/results"
)

// loadEvery is how often the journal of a run that is followed is read.
const loadEvery = 250 * time.Millisecond

// LoadFollowInput is the input of follow-load-run.
type LoadFollowInput struct {
	LoadPath
	Last string `header:"Last-Event-ID" maxLength:"128" doc:"The id of an event, as a browser sends it when it connects again."`
}

// addLoadRun declares follow-load-run.
func (s *Service) addLoadRun(to huma.API, o huma.Operation) {
	o.Responses = map[string]*huma.Response{"200": {Description: "Server-sent events: run, agent, progress, interval, left_out, and end.",
		Content: map[string]*huma.MediaType{"text/event-stream": {Schema: &huma.Schema{Type: huma.TypeString, Description: "Events, as the HTML standard describes them."}}}}}
	huma.Register(to, o, func(ctx context.Context, in *LoadFollowInput) (*huma.StreamResponse, error) {
		f, err := s.openLoad(in)
		if err != nil {
			return nil, s.problem(ctx, o.OperationID, err)
		}
		leave, p := s.listeners.enter(listenerOf(ctx))
		if p != nil {
			f.close()
			return nil, p
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer leave()
			defer f.close()
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
			f.out = &eventWriter{w: w, control: http.NewResponseController(w)}
			f.follow(ctx)
		}}, nil
	})
}

// A loadFollower writes what the journal of a run has, as events. Each has a reader of its own, so that
// a slow client holds up nobody else.
type loadFollower struct {
	folder *results.Folder
	run    results.Run
	scan   func(context.Context) (done func(), err error)
	reader *journal.Reader // nil: the run has a result
	from   int64           // behind which event it goes on; 0: it begins anew
	out    *eventWriter
	ended  bool
}

// openLoad opens a run for a request.
func (s *Service) openLoad(in *LoadFollowInput) (*loadFollower, error) {
	folder, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	f := &loadFollower{folder: folder, scan: s.scanned}
	if f.run, err = folder.Run(in.Run); err != nil {
		return nil, err
	}
	if f.run.State == results.Damaged {
		return nil, pawl.Errorf(pawl.Conflict, "run %.50q is damaged: %s", in.Run, f.run.Reason)
	}
	if f.from, err = f.place(in.Last); err != nil {
		return nil, err
	}
	if f.run.Result {
		return f, nil
	}
	f.reader, err = folder.Follow(in.Run)
	if pawl.KindOf(err) == pawl.NotFound { // it has just ended
		f.run, err = folder.Run(in.Run)
		return f, err
	}
	if err == nil && f.from > 0 {
		if err = f.reader.From(f.from); err != nil {
			f.close()
		}
	}
	return f, err
}

// place returns the place of an event of this run. An id is RUN.PLACE: another run may have the name
// meanwhile.
func (f *loadFollower) place(id string) (int64, error) {
	if id == "" {
		return 0, nil
	}
	run, place, _ := strings.Cut(id, ".")
	n, err := strconv.ParseInt(place, 10, 64)
	if err != nil || n <= 0 || run != f.run.ID {
		return 0, pawl.Errorf(pawl.Invalid, "Last-Event-ID %.50q: want the id of an event of this run", id)
	}
	return n, nil
}

func (f *loadFollower) close() {
	if f.reader != nil {
		_ = f.reader.Close() // it was only read
	}
}

// follow writes events until the run has ended, ctx ends, or the client no longer reads.
func (f *loadFollower) follow(ctx context.Context) {
	f.out.quiet = time.Now().Add(eventQuiet)
	if f.reader == nil {
		f.end()
		return
	}
	if f.from == 0 {
		if err := f.begin(ctx); err != nil {
			f.out.bye()
			return
		}
	}
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for {
		alive := f.reader.Alive() // before its lines: none comes after it
		if err := f.reader.Read(f.line); err != nil {
			if !errors.Is(err, errGone) {
				f.out.bye()
			}
			return
		}
		if !alive && !f.ended {
			f.end()
			return
		}
		if len(f.out.buffer) == 0 && !time.Now().Before(f.out.quiet) {
			f.out.comment("")
		}
		if len(f.out.buffer) > 0 && f.out.flush() != nil || f.ended {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			f.out.bye()
			return
		}
	}
}

// begin writes what the lines so far say that the run is.
func (f *loadFollower) begin(ctx context.Context) error {
	state, err := f.state(ctx)
	if err != nil {
		return err
	}
	for _, l := range state.Lines() {
		if err := f.line(l); err != nil {
			return err
		}
	}
	return f.out.flush()
}

// state reads the lines so far.
func (f *loadFollower) state(ctx context.Context) (*journal.State, error) {
	done, err := f.scan(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	state := &journal.State{}
	return state, f.reader.Read(func(l journal.Line) error {
		return cmp.Or(ctx.Err(), state.Take(l))
	})
}

// errGone says that the client is gone.
var errGone = errors.New("the client no longer reads")

// line writes a line, at once if there is much to write.
func (f *loadFollower) line(l journal.Line) error {
	f.out.event(l.Type, f.run.ID+"."+strconv.FormatInt(l.Next, 10), l.Data)
	f.ended = f.ended || l.Type == journal.TypeEnd
	if len(f.out.buffer) > eventPiece && f.out.flush() != nil {
		return errGone
	}
	return nil
}

// end writes the end of a run whose journal has none: it has a result, or it has none and its controller is
// gone.
func (f *loadFollower) end() {
	e := journal.EndLine{Type: journal.TypeEnd, At: time.Now().UTC(), Run: f.run.ID, Outcome: string(results.Lost), Reason: results.LostReason}
	if r, err := f.folder.Run(f.run.Name); err == nil && !r.Ended.IsZero() && r.ID == f.run.ID {
		e.At, e.Outcome, e.Reason, e.Folder = r.Ended, string(r.State), r.Reason, r.Name
	}
	f.out.event(journal.TypeEnd, "", jsonOf(e))
	_ = f.out.flush() // it ends anyway
}
