package api

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/load/journal"
	"github.com/pawl-dev/pawl/internal/load/report"
	"github.com/pawl-dev/pawl/internal/load/results"
	"github.com/pawl-dev/pawl/internal/load/spec"
)

func (s *Service) loadOperations() []operation {
	const tag, at = "load", "/api/load/runs/{run}"
	reads := func(id, path, summary, detail string, add func(huma.API, huma.Operation), more ...Slug) operation {
		return operation{id: id, method: get, path: path, role: Viewer, everywhere: true, errors: append([]Slug{SlugNotFound, SlugConflict}, more...), tag: tag, summary: summary, detail: detail, add: add}
	}
	return []operation{
		reads("list-load-runs", "/api/load/runs", "List load runs", "Lists the load runs whose results and journals are in the folder that the server was started with, newest first. One whose result cannot be read is damaged, and has the reason. One that has begun and whose controller is gone without a result is lost.", does(s, s.listLoadRuns)),
		reads("get-load-run", at, "Read a load run", "Reads a run: what it has measured, its load file, its thresholds and its agents, with their skew and the bound of its error. The summary is that of a run that has ended.", does(s, s.getLoadRun)),
		reads("list-load-intervals", at+"/intervals", "List what was done in each interval", "Lists the intervals of a run, in their order, of all agents and operations together, of one operation, or of one agent. The cursor of a run that is on is refused once it has ended.", does(s, s.listLoadIntervals)),
		reads("list-load-history", at+"/history", "List every move of a load and its agents", "Lists the moves of a load (lr_) and of its agents (ag_), as its controller has sealed them. Those of an older program have none.", does(s, s.listLoadHistory)),
		reads("get-load-report", at+"/report", "Read the report of a load run as a page", "Reads the report of a run that has ended, as one HTML page that needs nothing else.", s.addLoadReport, SlugRateLimited),
		reads("follow-load-run", at+"/follow", "Follow a load run", "Streams a run as server-sent events, named run, agent, progress, interval and left_out, each with a line as \"pawl load run --json\" prints it, until the event end, which has the outcome; lost is that of a run whose controller is gone without saying how it has ended. It begins with the last line of each kind and agent. With agent the intervals are those of one agent, which come as it sends them. Last-Event-ID goes on behind an event of the same run. The event bye ends it early.", s.addLoadRun, SlugRateLimited),
		reads("compare-load-runs", "/api/load/compare", "Compare two load runs", "Compares run b with run a, by operation: the change, its interval at a confidence of 95 %, and a verdict. Runs of other loads are refused, with the keys that differ, unless force is given.", does(s, s.compareLoadRuns), SlugRateLimited),
		reads("list-load-agents", "/api/load/agents", "List load agents", "Lists the agents that the server was started with, asking each: its run, or the last one, and why it cannot be reached. One that does not reply within 3 s is not waited for.", does(s, s.listLoadAgents)),
		{id: "abort-load-run", method: post, path: at + "/abort", role: Operator, everywhere: true, repeat: settles, errors: []Slug{SlugNotFound, SlugConflict}, tag: tag,
			summary: "End a load run", detail: "Has the controller of a run end it: its agents stop within a second and clean up, and what was measured is kept. The trail of the run has who has asked first, even if the load had not begun. The response does not wait for its end.", add: does(s, s.abortLoadRun)},
	}
}

// A LoadPath names a load run.
type LoadPath struct {
	Run string `path:"run" doc:"The name of its result." example:"monday"`
}

// A LoadRun is a load run in short.
type LoadRun struct {
	Name           string         `json:"name" doc:"That of its result, by which other operations know it."`
	Run            *string        `json:"run_id"`
	Load           *string        `json:"load" doc:"The name that its load file has."`
	State          results.State  `json:"state" enum:"connecting,preparing,starting,running,ending,completed,failed,aborted,lost,damaged" doc:"lost: it has begun, and its controller has died or could not write the result. damaged: its result cannot be read."`
	Reason         *string        `json:"reason" doc:"Why it ends, has failed, or is damaged."`
	Partial        bool           `json:"partial" doc:"A part of its result is missing, or ended early."`
	Violations     int            `json:"violations" doc:"Thresholds that were not kept."`
	Agents         int            `json:"agent_count"`
	BegunAt        pawl.Timestamp `json:"begun_at" doc:"The start that its agents have agreed on. Without one, when its controller has begun; of one that is damaged, when it was written."`
	EndedAt        pawl.Timestamp `json:"ended_at"`
	HeardAt        pawl.Timestamp `json:"heard_at" doc:"When the controller has last written anything, if there is no result."`
	Seconds        float64        `json:"seconds" doc:"How long it was measured. Without a result: the end of the last interval."`
	Total          report.Figures `json:"total" doc:"Of the whole run. Without a result: of the last interval."`
	AbortRequested *LoadRequest   `json:"abort_requested,omitempty" doc:"The request to end it, if it has no result."`
}

// A LoadRequest says who has asked for the end of a run.
type LoadRequest struct {
	Actor  string         `json:"actor"`
	Reason *string        `json:"reason"`
	At     pawl.Timestamp `json:"at"`
}

// A LoadThreshold is what a run must not exceed or fall below.
type LoadThreshold struct {
	Operation *string     `json:"operation" doc:"Null: all together."`
	Metric    spec.Metric `json:"metric" doc:"p50, p90, p99, p999 and max in nanoseconds; errors; throughput in bytes and operations in a second."`
	Limit     float64     `json:"limit"`
	Violation *string     `json:"violation" doc:"How it was not kept. Null: it was, or the run has no result."`
}

// A LoadPart is an agent of a run.
type LoadPart struct {
	Agent       int     `json:"agent"`
	ID          *string `json:"id"`
	Folder      *string `json:"folder" doc:"In the result, or the one that it is to have: its intervals are listed by it."`
	Address     *string `json:"address"`
	Status      string  `json:"status"`
	ErrorCode   *string `json:"error_code"`
	Error       *string `json:"error"`
	ClockOffset *int64  `json:"clock_offset_ns" doc:"Its clock less that of the controller."`
	ClockBound  *int64  `json:"clock_bound_ns" doc:"The uncertainty of that and of the skew."`
	SkewFirst   *int64  `json:"skew_first_ns" doc:"How long after the start its first thread has begun, by the controller's clock."`
	SkewLast    *int64  `json:"skew_last_ns"`
}

// A LoadDetail is a load run with all that is known of it.
type LoadDetail struct {
	LoadRun
	Config     string          `json:"config" doc:"The load file."`
	Thresholds []LoadThreshold `json:"thresholds"`
	Parts      []LoadPart      `json:"agents"`
	Summary    *report.Summary `json:"summary,omitempty" doc:"What summary.json of its result has, if it has one."`
}

// theLoads returns the folder of load runs.
func (s *Service) theLoads() (*results.Folder, error) {
	if s.Loads == nil {
		return nil, &pawl.Error{Kind: pawl.NotFound, Message: "this server shows no load runs", Hint: "start it with --load DIR, a folder of results"}
	}
	return s.Loads, nil
}

// orNever returns a time, none if it is zero.
func orNever(t time.Time) pawl.Timestamp {
	if t.IsZero() {
		return 0
	}
	return pawl.Timestamp(t.UnixMicro())
}

// LoadRunOf returns a run as it is shown.
func LoadRunOf(r *results.Run) LoadRun {
	v := LoadRun{Name: r.Name, Run: orNothing(r.ID), Load: orNothing(r.Load), State: r.State, Reason: orNothing(r.Reason), Partial: r.Partial, Violations: r.Violations,
		Agents: r.Agents, BegunAt: orNever(r.Begun), EndedAt: orNever(r.Ended), HeardAt: orNever(r.Heard), Seconds: r.Seconds, Total: r.Total}
	if q := r.Requested; q != nil {
		v.AbortRequested = &LoadRequest{q.Actor, orNothing(q.Reason), orNever(q.At)}
	}
	return v
}

func (s *Service) listLoadRuns(ctx context.Context, in *struct {
	Window
	State []results.State `query:"state" enum:"connecting,preparing,starting,running,ending,completed,failed,aborted,lost,damaged" doc:"Only in these states, separated by commas."`
	Load  string          `query:"load" maxLength:"256" doc:"Only of the load with this name."`
	Q     string          `query:"q" maxLength:"256" doc:"Only those whose name, run id or load contains this text."`
}) (*body[page[LoadRun]], error) {
	f, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	all, err := f.List(ctx)
	if err != nil {
		return nil, err
	}
	filter := []any{"load", in.State, in.Load, in.Q}
	return placedPage(in.Window, filter, func(after string, limit int) (items []LoadRun, next string, err error) {
		for i := range all {
			r := &all[i]
			if after != "" && r.Place() <= after || len(in.State) > 0 && !slices.Contains(in.State, r.State) || in.Load != "" && r.Load != in.Load ||
				!strings.Contains(r.Name+"\n"+r.ID+"\n"+r.Load, in.Q) {
				continue
			}
			if len(items) == limit {
				return items, next, nil
			}
			items, next = append(items, LoadRunOf(r)), r.Place()
		}
		return items, "", nil
	})
}

func (s *Service) getLoadRun(_ context.Context, in *struct{ LoadPath }) (*body[LoadDetail], error) {
	f, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	d, err := loadDetail(f, in.Run)
	if pawl.KindOf(err) == pawl.NotFound { // it may have just ended
		d, err = loadDetail(f, in.Run)
	}
	if err != nil {
		return nil, err
	}
	return &body[LoadDetail]{*d}, nil
}

func loadDetail(f *results.Folder, name string) (*LoadDetail, error) {
	r, err := f.Run(name)
	if err != nil {
		return nil, err
	}
	d := &LoadDetail{LoadRun: LoadRunOf(&r), Thresholds: []LoadThreshold{}, Parts: []LoadPart{}}
	if config, err := f.Config(r.Name); err == nil {
		d.Config = strings.ToValidUTF8(string(config), "\ufffd")
	}
	switch {
	case r.State == results.Damaged:
		return d, nil
	case r.Result:
		if d.Summary, err = f.Summary(r.Name); err != nil {
			return nil, err
		}
		d.Parts = partsOf(d.Summary)
	default:
		lines, err := f.Agents(r.Name)
		if err != nil {
			return nil, err
		}
		names := results.Names(lines)
		for i, l := range lines {
			d.Parts = append(d.Parts, LoadPart{Agent: l.Agent, ID: orNothing(l.ID), Folder: &names[i], Address: orNothing(l.Address), Status: l.Status, ErrorCode: orNothing(l.Code), Error: orNothing(l.Error),
				ClockOffset: l.Offset, ClockBound: l.Bound, SkewFirst: l.SkewFirst, SkewLast: l.SkewLast})
		}
	}
	if test, err := spec.Parse([]byte(d.Config)); err == nil {
		for _, t := range report.Thresholds(test, d.Summary) {
			d.Thresholds = append(d.Thresholds, LoadThreshold{orNothing(string(t.Operation)), t.Metric, t.Limit, orNothing(t.Violation)})
		}
	}
	return d, nil
}

// partsOf returns the agents of a run that has ended, with the skew of those that have begun.
func partsOf(sum *report.Summary) []LoadPart {
	parts := []LoadPart{}
	for i := range sum.Agents {
		a := &sum.Agents[i]
		p := LoadPart{Agent: a.Index, ID: orNothing(a.ID), Folder: orNothing(a.Folder), Address: orNothing(a.Address), Status: a.Status}
		if a.Error != nil {
			p.ErrorCode, p.Error = orNothing(a.Error.Code), orNothing(a.Error.Message)
		}
		if a.ClockProbes > 0 {
			p.ClockOffset, p.ClockBound = &a.ClockOffset, &a.ClockBound
			if a.HasBegun() {
				p.SkewFirst, p.SkewLast = &a.SkewFirst, &a.SkewLast
			}
		}
		parts = append(parts, p)
	}
	return parts
}

func (s *Service) listLoadIntervals(ctx context.Context, in *struct {
	LoadPath
	Limit     int     `query:"limit" minimum:"1" maximum:"1000" default:"100" doc:"How many, at most."`
	Cursor    string  `query:"cursor" maxLength:"2048" doc:"next of the page before, with the same other parameters."`
	Agent     string  `query:"agent" maxLength:"128" doc:"Only of this agent, by its folder."`
	Operation string  `query:"operation" enum:"read,write,append,create,delete,stat,list,mkdir,rename,fsync" doc:"Only of this operation, of all agents together."`
	From      float64 `query:"from" minimum:"0" doc:"Only those that begin at this second of the run or later."`
	To        float64 `query:"to" minimum:"0" doc:"Only those that begin before this second. 0: all."`
}) (*body[page[results.Interval]], error) {
	f, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	if in.Agent != "" && in.Operation != "" {
		return nil, pawl.Errorf(pawl.Invalid, "agent %.50q and operation %q: want one of them", in.Agent, in.Operation)
	}
	r, err := f.Run(in.Run)
	if err != nil {
		return nil, err
	}
	done, err := s.scanning.wait(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	defer done()
	of := fmt.Sprintf("%s %t ", r.ID, r.Result) // a place is one in another file once there is a result
	return placedPage(Window{Limit: in.Limit, Cursor: in.Cursor}, []any{"intervals", in.Run, in.Agent, in.Operation, in.From, in.To}, func(after string, limit int) ([]results.Interval, string, error) {
		q := results.Query{Agent: in.Agent, Operation: in.Operation, From: in.From, To: in.To, Limit: limit}
		if after != "" {
			place, same := strings.CutPrefix(after, of)
			if !same {
				return nil, "", pawl.Errorf(pawl.Invalid, "cursor: run %.50q has ended since that page, or is another one: begin with the first page", in.Run)
			}
			if q.After, err = strconv.ParseInt(place, 10, 64); err != nil || q.After <= 0 {
				return nil, "", pawl.Errorf(pawl.Invalid, "cursor: want the next of a page")
			}
		}
		items, next, err := f.Intervals(ctx, &r, q)
		if err != nil || next == 0 {
			return items, "", err
		}
		return items, of + strconv.FormatInt(next, 10), nil
	})
}

func (s *Service) listLoadHistory(ctx context.Context, in *struct {
	LoadPath
	Window
}) (*body[page[pawl.Transition]], error) {
	f, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	done, err := s.scanning.wait(ctx, in.Run)
	if err != nil {
		return nil, err
	}
	defer done()
	var all []pawl.Transition
	if err := f.History(ctx, in.Run, func(e *audit.Entry) error {
		all = append(all, pawl.TransitionOf(e))
		return nil
	}); err != nil {
		return nil, err
	}
	return indexedPage(in.Window, all, "load-history", in.Run)
}

func (s *Service) abortLoadRun(ctx context.Context, in *struct {
	LoadPath
	Command
}) (*body[LoadRun], error) {
	f, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	by, err := in.change(ctx)
	if err != nil {
		return nil, err
	}
	r, err := f.Abort(in.Run, journal.Request{Actor: by.Actor, Reason: by.Reason, RequestID: by.RequestID, At: s.Now().UTC()})
	if err != nil {
		return nil, err
	}
	return &body[LoadRun]{LoadRunOf(&r)}, nil
}

// How many reports and comparisons are made at once, in all and of one run: the results are read into memory.
const maxEvaluated, maxEvaluatedOfRun = 3, 2

// evaluate takes a place for the evaluation of runs until done is called.
func (s *Service) evaluate(runs ...string) (done func(), err error) {
	done, ok, _ := s.evaluating.take(slices.Compact(runs)...)
	if !ok {
		p := Problemf(SlugRateLimited, "%d reports and comparisons of loads are being made, or %d of one of the runs, as many as may at once", maxEvaluated, maxEvaluatedOfRun)
		p.RetryAfter = time.Second
		return nil, p
	}
	return done, nil
}

// How many journals, trails and intervals are read at once, in all and of one run: they may be long.
const maxScanned, maxScannedOfRun = 8, 2

func (s *Service) compareLoadRuns(_ context.Context, in *struct {
	A     string `query:"a" required:"true" minLength:"1" maxLength:"256" doc:"The name of the run to compare with." example:"monday"`
	B     string `query:"b" required:"true" minLength:"1" maxLength:"256" doc:"The name of the run that is compared." example:"tuesday"`
	Force bool   `query:"force" doc:"Compare runs of other loads, too."`
}) (*body[report.Comparison], error) {
	f, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	done, err := s.evaluate(in.A, in.B)
	if err != nil {
		return nil, err
	}
	defer done()
	a, err := f.Report(in.A)
	if err != nil {
		return nil, err
	}
	b, err := f.Report(in.B)
	if err != nil {
		return nil, err
	}
	c, err := report.Compare(a, b, in.Force)
	if err != nil {
		return nil, err
	}
	return &body[report.Comparison]{*c}, nil
}

// addLoadReport declares the report of a run as a page.
func (s *Service) addLoadReport(to huma.API, o huma.Operation) {
	const html = "text/html"
	o.Responses = map[string]*huma.Response{"200": {Description: "A page.", Content: map[string]*huma.MediaType{html: {Schema: &huma.Schema{Type: huma.TypeString}}}}}
	huma.Register(to, o, func(ctx context.Context, in *struct {
		LoadPath
		Download bool `query:"download" doc:"Let a browser store it as a file."`
	}) (*huma.StreamResponse, error) {
		page, err := s.loadPage(in.Run)
		if err != nil {
			return nil, s.problem(ctx, o.OperationID, err)
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			c.SetHeader("Content-Type", html)
			c.SetHeader("Content-Security-Policy", "sandbox; default-src 'none'; style-src 'unsafe-inline'")
			if in.Download {
				c.SetHeader("Content-Disposition", `attachment; filename="load.html"`)
			}
			c.SetStatus(http.StatusOK)
			_, _ = c.BodyWriter().Write(page) // the client may be gone
		}}, nil
	})
}

func (s *Service) loadPage(name string) ([]byte, error) {
	f, err := s.theLoads()
	if err != nil {
		return nil, err
	}
	done, err := s.evaluate(name)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := f.Report(name)
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = r.WriteHTML(&page)
	return page.Bytes(), err
}
