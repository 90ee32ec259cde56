package explain

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/audit"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/trail"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// Bounds of a timeline.
const (
	maxSpans      = 20_000 // of a timeline
	maxStepSpans  = 100    // of one step: the last ones
	densityWidth  = 200    // buckets
	maxDensity    = 1_000_000
	maxMomentRows = 1_000_000 // moves of a job
)

// What a step does during a span.
const (
	SpanQueue   = "queue"   // it waits for a worker
	SpanRun     = "run"     // a worker runs it
	SpanBackoff = "backoff" // it waits for its next attempt
	SpanWait    = "wait"    // it waits for a person, a time, an event or a job, or for its instances
)

var spanKinds = []string{SpanQueue, SpanRun, SpanBackoff, SpanWait}

// A Span is a time during which a step did one thing.
type Span struct {
	Kind    string         `json:"kind" enum:"queue,run,backoff,wait"`
	From    pawl.Timestamp `json:"from"`
	To      pawl.Timestamp `json:"to" doc:"null: it goes on."`
	Claim   int            `json:"claim,omitempty" doc:"Of a run or a wait: which claim of the step it is."`
	Attempt int            `json:"attempt,omitempty"`
	Worker  string         `json:"worker_id,omitempty"`
	Event   machine.Event  `json:"event,omitempty" doc:"What has ended it."`
}

// StepSpans are the spans of a step, or how many instances of a fan-out did what.
type StepSpans struct {
	Step    string        `json:"step" doc:"The key of the step."`
	Status  machine.State `json:"status"`
	Spans   []Span        `json:"spans"`
	Omitted int           `json:"omitted,omitempty" doc:"How many earlier spans are left out."`
	Fan     *Density      `json:"instances,omitempty"`
}

// A Density says how many instances of a fan-out did the same at once, at most, in each bucket
// of time.
type Density struct {
	From    pawl.Timestamp   `json:"from"`
	Bucket  pawl.Duration    `json:"bucket" doc:"The length of a bucket."`
	Kinds   map[string][]int `json:"kinds" doc:"By queue, run, backoff and wait: the most at once, in each bucket."`
	Omitted bool             `json:"omitted,omitempty" doc:"There were more changes than are counted: the last buckets say too little."`
}

// A Timeline is what the steps of a job did, in the order of the file.
type Timeline struct {
	Items    []StepSpans    `json:"items"`
	Sequence int64          `json:"sequence" doc:"The number of the job's moves and those of its steps that are seen at least. Absent for a moment of the past."`
	AsOf     pawl.Timestamp `json:"as_of" doc:"Of a moment of the past: when. Otherwise null."`
	Omitted  bool           `json:"omitted,omitempty" doc:"Spans of later steps are left out: ask for these steps alone."`
}

// Timeline returns what the steps of a job did, or one of them: a step of the file with its
// instances, or one instance; now or as it was known at a moment. It reads the trail, and no
// body.
func (r *Reader) Timeline(ctx context.Context, id pawl.ID, step string, at pawl.Moment) (*Timeline, error) {
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	def, err := r.defs.Get(ctx, j.Definition)
	if err != nil {
		return nil, err
	}
	b := &timeline{def: def, out: &Timeline{Items: []StepSpans{}}}
	if step != "" {
		if b.only, err = def.OrdOf(step); err != nil {
			return nil, err
		}
	}
	until := int64(0)
	if at == (pawl.Moment{}) {
		_, b.out.Sequence, err = r.store.JobSequence(ctx, j.Key())
	} else if until, err = r.until(ctx, j, at); err == nil {
		b.out.AsOf = pawl.Timestamp(until)
	}
	if err == nil {
		err = r.eachTrail(ctx, j, b.only.Node(), until, b.add)
	}
	if err != nil {
		return nil, err
	}
	b.close()
	return b.out, nil
}

// A timeline is a Timeline in the making.
type timeline struct {
	def   *workflow.Definition
	only  pawl.Ord // of one instance, or of a node; 0: all
	out   *Timeline
	spans int
	fan   *fanning // of the node whose instances come now
}

func (b *timeline) add(s *pawl.Step, entries []audit.Entry) {
	if b.fan != nil && b.fan.node != s.Ord.Node() {
		b.close()
	}
	if i := s.Ord.Instance(); i > 0 && b.only.Instance() == 0 {
		if b.fan == nil {
			b.fan = &fanning{node: s.Ord.Node()}
		}
		b.fan.add(spansOf(b.def, s.Ord, entries))
		return
	}
	if b.only.Instance() != 0 && s.Ord != b.only {
		return
	}
	all := spansOf(b.def, s.Ord, entries)
	kept := all[max(0, len(all)-maxStepSpans):]
	if b.spans+len(kept) > maxSpans {
		kept, b.out.Omitted = nil, true
	}
	b.spans += len(kept)
	b.out.Items = append(b.out.Items, StepSpans{Step: b.def.Key(s.Ord), Status: s.State, Spans: append([]Span{}, kept...), Omitted: len(all) - len(kept)})
}

// close adds the instances that were counted to their step.
func (b *timeline) close() {
	if b.fan != nil && len(b.out.Items) > 0 {
		b.out.Items[len(b.out.Items)-1].Fan = b.fan.density()
	}
	b.fan = nil
}

// spansOf returns the spans of a step from its trail.
func spansOf(def *workflow.Definition, ord pawl.Ord, entries []audit.Entry) (all []Span) {
	var f fold
	f.today = &pawl.Step{}
	ran := false
	for i := range entries {
		e := &entries[i]
		f.entry(e)
		kind := ""
		switch e.To {
		case lifecycle.StepEnqueued:
			kind = SpanQueue
		case lifecycle.StepInProgress:
			ran, kind = true, SpanRun
			if def.Node(ord.Node()).Kind.Waits() || def.Node(ord.Node()).Fans() && ord.Instance() == 0 {
				kind = SpanWait
			}
		case lifecycle.StepRetryableError, lifecycle.StepPending:
			if ran {
				kind = SpanBackoff
			}
		}
		if n := len(all); n > 0 && all[n-1].To == 0 {
			if all[n-1].Kind == kind && e.Event != lifecycle.StepClaim {
				continue
			}
			all[n-1].To, all[n-1].Event = pawl.Timestamp(e.At), e.Event
			if all[n-1].From == all[n-1].To || e.Event == lifecycle.StepExhaust { // it left the state in the same commit, or no attempt was to follow
				all = all[:n-1]
			}
		}
		if kind == "" {
			continue
		}
		s := Span{Kind: kind, From: pawl.Timestamp(e.At)}
		if e.To == lifecycle.StepInProgress {
			s.Claim, s.Attempt = f.step.Claims, f.step.Attempts
			if strings.HasPrefix(f.worker, pawl.WorkerPrefix) {
				s.Worker = f.worker
			}
		}
		all = append(all, s)
	}
	return all
}

// fanning counts what the instances of a node do. A change is a time and what begins or ends at
// it.
type fanning struct {
	node    int
	changes []change
	omitted bool
}

type change struct {
	at   int64
	kind int8 // index of spanKinds, from 1; negative: it ends
}

func (f *fanning) add(spans []Span) {
	for i := range spans {
		if len(f.changes) >= maxDensity {
			f.omitted = true
			return
		}
		kind := int8(slices.Index(spanKinds, spans[i].Kind) + 1)
		f.changes = append(f.changes, change{int64(spans[i].From), kind})
		if spans[i].To != 0 {
			f.changes = append(f.changes, change{int64(spans[i].To), -kind})
		}
	}
}

func (f *fanning) density() *Density {
	d := &Density{Kinds: map[string][]int{}, Omitted: f.omitted}
	if len(f.changes) == 0 {
		return d
	}
	slices.SortStableFunc(f.changes, func(a, b change) int { // what ends comes first
		if a.at != b.at {
			return int(max(-1, min(1, a.at-b.at)))
		}
		return int(a.kind) - int(b.kind)
	})
	first, last := f.changes[0].at, f.changes[len(f.changes)-1].at
	width := (last-first)/densityWidth + 1
	d.From, d.Bucket = pawl.Timestamp(first), pawl.Duration(width*1000)
	buckets := int((last-first)/width) + 1
	counts := make([]int, len(spanKinds)+1)
	peaks := make([][]int, len(spanKinds)+1)
	next := 0
	for b := range buckets {
		for k := 1; k <= len(spanKinds); k++ { // what goes on from the bucket before
			peaks[k] = append(peaks[k], counts[k])
		}
		for ; next < len(f.changes) && f.changes[next].at < first+int64(b+1)*width; next++ {
			switch k := f.changes[next].kind; {
			case k > 0:
				counts[k]++
				peaks[k][b] = max(peaks[k][b], counts[k])
			default:
				counts[-k]--
			}
		}
	}
	for k, name := range spanKinds {
		if slices.Max(peaks[k+1]) > 0 {
			d.Kinds[name] = peaks[k+1]
		}
	}
	return d
}

// An Attempt is a time for which a step was claimed.
type Attempt struct {
	Claim      int            `json:"claim"`
	Attempt    int            `json:"attempt"`
	Worker     string         `json:"worker_id,omitempty" doc:"Absent: the engine."`
	EnqueuedAt pawl.Timestamp `json:"enqueued_at"`
	StartedAt  pawl.Timestamp `json:"started_at"`
	EndedAt    pawl.Timestamp `json:"ended_at" doc:"null: it runs."`
	Event      machine.Event  `json:"event,omitempty" doc:"What has ended it."`
	Reason     string         `json:"reason,omitempty"`
	Error      *pawl.Failure  `json:"error" doc:"Why it has failed, or null."`
}

// Attempts returns the last claims of a step, oldest first, and how many earlier ones are left
// out.
func (r *Reader) Attempts(ctx context.Context, id pawl.ID) (all []Attempt, omitted int, err error) {
	if _, _, _, err := r.Step(ctx, id); err != nil {
		return nil, 0, err
	}
	f := fold{today: &pawl.Step{}}
	all = []Attempt{}
	queued := int64(0)
	err = r.eachMove(ctx, store.StepEntity(id.StepKey()), func(e *audit.Entry) {
		f.entry(e)
		last := len(all) - 1
		switch {
		case e.To == lifecycle.StepEnqueued && e.From != e.To:
			queued = e.At
		case e.Event == lifecycle.StepClaim:
			if len(all) == maxStepSpans {
				all, omitted = all[1:], omitted+1
			}
			all = append(all, Attempt{Claim: f.step.Claims, Attempt: f.step.Attempts, Worker: f.worker, EnqueuedAt: pawl.Timestamp(queued), StartedAt: pawl.Timestamp(e.At)})
			return
		}
		if last >= 0 && all[last].EndedAt == 0 && e.To != lifecycle.StepInProgress {
			t := pawl.TransitionOf(e)
			all[last].EndedAt, all[last].Event, all[last].Reason, all[last].Error = pawl.Timestamp(e.At), e.Event, t.Reason, failureIn(e)
		}
	})
	return all, omitted, err
}

// Moments are the moves of a job and its steps, by bucket of time.
type Moments struct {
	From     pawl.Timestamp `json:"from" doc:"When the job was made."`
	Bucket   pawl.Duration  `json:"bucket" doc:"The length of a bucket."`
	Moves    []int          `json:"moves" doc:"How many, in each bucket."`
	Failures []int          `json:"failures" doc:"How many of them were failures of attempts."`
	Sequence []int64        `json:"sequence" doc:"The sequence of the job itself at the end of each bucket."`
	Omitted  bool           `json:"omitted,omitempty" doc:"There were more moves than are counted."`
}

// failing are the events by which an attempt fails.
var failing = []machine.Event{lifecycle.StepFail, lifecycle.StepFailPermanently, lifecycle.StepTimeout, lifecycle.StepLost, lifecycle.StepQueueTimeout}

// Moments returns the moves of a job and its steps in so many buckets of time.
func (r *Reader) Moments(ctx context.Context, id pawl.ID, buckets int) (*Moments, error) {
	j, err := store.FindJob(ctx, r.store, id)
	if err != nil {
		return nil, err
	}
	m := &Moments{Moves: []int{}, Failures: []int{}, Sequence: []int64{}}
	type move struct {
		at, own int64
		failed  bool
	}
	var all []move
	err = r.store.Trails(ctx, j.Key(), func(t store.TrailOf) error {
		for i := range t.Entries {
			e := &t.Entries[i]
			if len(all) == maxMomentRows {
				m.Omitted = true
				break
			}
			one := move{at: e.At, failed: slices.Contains(failing, e.Event)}
			if t.Ord == 0 {
				one.own = e.Sequence
			}
			all = append(all, one)
		}
		return nil
	})
	if err != nil || len(all) == 0 {
		return m, err
	}
	first, last := all[0].at, all[0].at
	for _, a := range all {
		first, last = min(first, a.at), max(last, a.at)
	}
	width := (last-first)/int64(buckets) + 1
	n := int((last-first)/width) + 1
	m.From, m.Bucket = pawl.Timestamp(first), pawl.Duration(width*1000)
	m.Moves, m.Failures, m.Sequence = make([]int, n), make([]int, n), make([]int64, n)
	for _, a := range all {
		b := (a.at - first) / width
		m.Moves[b]++
		if a.failed {
			m.Failures[b]++
		}
		m.Sequence[b] = max(m.Sequence[b], a.own)
	}
	for b := 1; b < n; b++ {
		m.Sequence[b] = max(m.Sequence[b], m.Sequence[b-1])
	}
	return m, nil
}

// eachMove calls f with the moves of an entity.
func (r *Reader) eachMove(ctx context.Context, k store.EntityKey, f func(*audit.Entry)) error {
	return trail.EachEntry(ctx, r.store, k, func(e *audit.Entry) error { f(e); return nil })
}
