package api

import (
	"context"
	"net/http"
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
	Agent string `query:"agent" maxLength:"128" doc:"The intervals of this agent, by its folder, in place of those of all together."`
	Last  string `header:"Last-Event-ID" maxLength:"128" doc:"The id of an event, as a browser sends it when it connects again."`
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
	places *places           // to read what may be long
	reader *results.Follower // nil: the run has a result
	anew   bool              // it begins with what the run is
	out    *eventWriter
	ended  bool
}

// openLoad opens a run for a request.
func (s *Service) openLoad(in *LoadFollowInput) (*loadFollower, error) {
	folder, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	f := &loadFollower{folder: folder, places: s.scanning, anew: in.Last == ""}
	if f.run, f.reader, err = folder.Follow(in.Run, in.Agent); err != nil || f.anew {
		return f, err
	}
	if err := f.goOn(in.Last); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// goOn goes on behind an event of this run. An id is RUN.PLACE: another run may have the name meanwhile.
func (f *loadFollower) goOn(id string) error {
	run, place, _ := strings.Cut(id, ".")
	switch err := error(nil); {
	case run == f.run.ID && f.reader == nil: // it has ended
		return nil
	case run == f.run.ID:
		if err = f.reader.From(place); pawl.KindOf(err) != pawl.Invalid {
			return err
		}
	}
	return pawl.Errorf(pawl.Invalid, "Last-Event-ID %.50q: want the id of an event of this run, and with the same agent", id)
}

func (f *loadFollower) close() {
	if f.reader != nil {
		f.reader.Close()
	}
}

// follow writes events until the run has ended, ctx ends, or the client no longer reads.
func (f *loadFollower) follow(ctx context.Context) {
	f.out.quiet = time.Now().Add(eventQuiet)
	if f.reader == nil {
		f.end()
		return
	}
	if f.anew {
		if f.begin(ctx) != nil {
			f.out.bye()
			return
		}
	}
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for {
		p, err := f.reader.Next()
		if err == nil {
			err = f.lines(p.Lines)
		}
		if err != nil {
			f.out.bye()
			return
		}
		if !p.Alive && !p.More && !f.ended {
			f.end()
			return
		}
		if f.out.settle("") != nil || f.ended {
			return
		}
		if p.More && ctx.Err() == nil {
			continue
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
	done, err := f.places.wait(ctx, f.run.Name)
	if err != nil {
		return err
	}
	lines, err := f.reader.Begin(ctx)
	done()
	if err == nil {
		err = f.lines(lines)
	}
	if err == nil {
		err = f.out.flush()
	}
	return err
}

// lines adds lines, until the client is cut off.
func (f *loadFollower) lines(all []results.Line) error {
	for _, l := range all {
		f.out.event(l.Type, f.run.ID+"."+l.Place, l.Data)
		f.ended = f.ended || l.Type == journal.TypeEnd
		if f.out.failed != nil {
			return f.out.failed
		}
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
