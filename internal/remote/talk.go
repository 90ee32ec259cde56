package remote

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/exchange"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

const (
	visitTime = 15 * time.Second // for the answer to an exchange that does not wait
	waitTime  = exchange.MaxWait + visitTime

	maxPortion = 6 << 20 // bytes of outputs in one exchange
)

// talks are the conversations of the workers of this process.
type talks struct {
	mu  sync.Mutex
	all map[rowkey.Worker]*talk
}

func (t *talks) of(worker rowkey.Worker) *talk {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[worker]
}

// begin adds the conversation of a new worker, in place of that of its predecessor.
func (t *talks) begin(e *Engine, w *pawl.Worker, before *link.Predecessor) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = make(map[rowkey.Worker]*talk)
	}
	if before != nil {
		delete(t.all, before.Worker)
	}
	t.all[w.Key()] = &talk{e: e, worker: w, held: make(map[link.Stop]holding), unsure: true,
		underway: make(map[int64]bool), over: make(map[link.Stop]int64)}
}

// step returns the id of a step that a worker of this process holds.
func (t *talks) step(c link.Stop) (id string, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, talk := range t.all {
		if id, held := talk.step(c); held {
			return id, true
		}
	}
	return "", false
}

// predecessor returns a predecessor as a message.
func (t *talks) predecessor(p *link.Predecessor) *exchange.Predecessor {
	if p == nil {
		return nil
	}
	old := t.of(p.Worker)
	if old == nil {
		return nil
	}
	m := &exchange.Predecessor{WorkerID: old.worker.ID.Public(pawl.WorkerPrefix)}
	for _, c := range p.Claims {
		key := link.Stop{StepKey: c.StepKey, Claim: c.Claims}
		if id, held := old.step(key); held {
			m.Holding = append(m.Holding, exchange.Claim{StepID: id, Claim: key.Claim})
		}
	}
	return m
}

// A talk is the conversation of one worker with its server. It knows what was delivered and
// not yet reported, so that what an answer had that was lost is found, and nothing is run
// twice that is delivered twice.
type talk struct {
	e      *Engine
	worker *pawl.Worker

	visits   sync.Mutex        // held during an exchange with reports; taken before mu
	messages []exchange.Report // of that exchange; the room is used again

	mu     sync.Mutex // guards what follows
	turn   int64      // of the last exchange that was sent
	held   map[link.Stop]holding
	unsure bool // the next exchange has to say what is held
	doubts int  // how often it became unsure
	poll   *slots
	like   link.StepInput // the node and the work of the last step that was delivered, which the next ones may share

	underway map[int64]bool      // the turns of exchanges without an answer
	over     map[link.Stop]int64 // claims that were reported, and the last turn that may still deliver them
}

// A holding is a claim that was delivered.
type holding struct {
	step string // its id, as it was delivered
	gone bool   // the server says that the worker does not have it any more; its end is not yet reported
}

func (t *talk) path(rest string) string {
	return at("/api/workers/%s", t.worker.ID.Public(pawl.WorkerPrefix)) + rest
}

func (t *talk) step(c link.Stop) (id string, held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h, held := t.held[c]
	return h.step, held
}

// claims returns claims as messages have them.
func (t *talk) claims(list []link.Stop) []exchange.Claim {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []exchange.Claim{}
	for _, c := range list {
		if h, held := t.held[c]; held {
			all = append(all, exchange.Claim{StepID: h.step, Claim: c.Claim})
		}
	}
	return all
}

// visit reports and claims, in as many exchanges as the reports need; the last one claims. If
// one fails, all reports are sent again: the server knows those that it has.
func (t *talk) visit(ctx context.Context, reports []link.Report, free int) ([]link.Assignment, error) {
	t.visits.Lock()
	defer t.visits.Unlock()
	defer t.hurry()
	var all []link.Assignment
	for {
		now := reports[:portion(reports)]
		reports = reports[len(now):]
		take := 0
		if len(reports) == 0 {
			take = free
		}
		got, err := t.deliver(ctx, now, take)
		if all == nil {
			all = got
		} else {
			all = append(all, got...)
		}
		if err != nil {
			t.run(all) // the worker takes no steps with an error
			return nil, err
		}
		if len(reports) == 0 {
			return all, nil
		}
	}
}

// run runs steps that the worker was not given by its visit.
func (t *talk) run(list []link.Assignment) {
	t.mu.Lock()
	s := t.poll
	t.mu.Unlock()
	for i := range list {
		s.run(&list[i])
	}
}

// portion returns how many reports fit into one exchange.
func portion(reports []link.Report) int {
	bytes := 0
	for i := range reports {
		if bytes += len(reports[i].Output); i == exchange.MaxReports || i > 0 && bytes > maxPortion {
			return i
		}
	}
	return len(reports)
}

// deliver sends reports. Of several of which the server refuses one as invalid each is sent
// alone, and that one becomes a failure of its step.
func (t *talk) deliver(ctx context.Context, reports []link.Report, free int) (all []link.Assignment, err error) {
	got, err := t.exchange(ctx, reports, free, 0)
	if err == nil || pawl.KindOf(err) != pawl.Invalid || link.Retryable(err) || len(reports) == 0 {
		return got, err
	}
	for i := range reports {
		r := reports[i]
		if got, err = t.exchange(ctx, []link.Report{r}, 0, 0); pawl.KindOf(err) == pawl.Invalid && err != nil && !link.Retryable(err) {
			r.Event, r.Output, r.Snooze = lifecycle.StepFailPermanently, nil, 0
			r.Failure = &pawl.Failure{Class: "invalid_report", Permanent: true, Message: "the server refuses the report of the step: " + err.Error()}
			got, err = t.exchange(ctx, []link.Report{r}, 0, 0)
		}
		if all = append(all, got...); err != nil {
			return all, err
		}
	}
	return all, nil
}

// exchange sends one exchange, once. An error that is not of the reports is Retryable.
func (t *talk) exchange(ctx context.Context, reports []link.Report, free int, wait time.Duration) ([]link.Assignment, error) {
	limit := visitTime
	if wait > 0 {
		limit = waitTime
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	r, doubts := t.request(reports, free, wait)
	defer t.ended(r.Turn)
	defer clear(r.Reports) // which are used again
	var a exchange.Answer
	err := t.e.once(limited, &call{operation: "exchange", method: http.MethodPost, path: t.path("/exchange"), body: r}, &a)
	if err != nil {
		return nil, t.failed(r, err)
	}
	got, err := t.learn(reports, &a, doubts)
	a.Over()
	if err == nil && a.NextMS > 0 {
		pause(ctx, time.Duration(a.NextMS)*time.Millisecond)
	}
	return got, err
}

func pause(ctx context.Context, d time.Duration) { wait(ctx, d) }

// request takes the next turn.
func (t *talk) request(reports []link.Report, free int, wait time.Duration) (r *exchange.Request, doubts int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn++
	t.underway[t.turn] = true
	ms := wait.Milliseconds()
	r = &exchange.Request{Turn: t.turn, Free: min(free, exchange.MaxFree), WaitMS: &ms}
	if len(reports) > 0 {
		t.messages = slices.Grow(t.messages[:0], len(reports))[:len(reports)]
		r.Reports = t.messages
	}
	for i := range reports {
		c := exchange.Claim{Claim: reports[i].Claim}
		if h, held := t.held[stopped(&reports[i])]; held {
			c.StepID = h.step
		} else {
			c.StepID = t.worker.ID.Public(pawl.StepPrefix) // of a step that was not delivered: the server refuses it
		}
		r.Reports[i] = exchange.ReportOf(c, &reports[i])
	}
	if t.unsure {
		r.Holding = []exchange.Claim{}
		for c, h := range t.held {
			if !h.gone {
				r.Holding = append(r.Holding, exchange.Claim{StepID: h.step, Claim: c.Claim})
			}
		}
	}
	return r, t.doubts
}

// ended forgets the claims that no exchange under way can deliver any more.
func (t *talk) ended(turn int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.underway, turn)
	oldest := t.turn + 1
	for turn := range t.underway {
		oldest = min(oldest, turn)
	}
	maps.DeleteFunc(t.over, func(_ link.Stop, last int64) bool { return last < oldest })
}

// doubtful reports whether an answer may be lost.
func (t *talk) doubtful() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unsure
}

// failed notes that an answer may be lost, and returns the error for the worker.
func (t *talk) failed(r *exchange.Request, err error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unsure = true
	t.doubts++
	var over *link.TurnError
	switch {
	case errors.Is(err, link.ErrWorkerEnded), pawl.KindOf(err) == pawl.NotFound:
		return link.ErrWorkerEnded
	case errors.As(err, &over):
		later := t.turn > r.Turn // this process has overtaken it itself
		if t.turn = max(t.turn, over.Current); later && len(r.Reports) == 0 {
			return nil
		}
	case pawl.KindOf(err) == pawl.Invalid && !errors.Is(err, errForeign):
		return err
	}
	return &link.CommitError{Err: err}
}

// learn takes over an answer.
func (t *talk) learn(reports []link.Report, a *exchange.Answer, doubts int) ([]link.Assignment, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.doubts == doubts && !a.More {
		t.unsure = false
	}
	alone := len(t.underway) == 1 // no other exchange can deliver what this one has reported
	for i := range reports {
		c := stopped(&reports[i])
		if delete(t.held, c); !alone {
			t.over[c] = t.turn
		}
	}
	gone, err := stopsOf(a.Gone)
	if err != nil {
		return nil, err
	}
	all := make([]link.Assignment, len(a.Steps))
	for i := range a.Steps {
		c, err := stopOf(a.Steps[i].Claim)
		if err != nil {
			return nil, err
		}
		all[i].Step = link.Claimed{StepKey: c.StepKey, Claims: c.Claim}
	}
	for _, c := range gone {
		if h, held := t.held[c]; held {
			h.gone = true
			t.held[c] = h
		}
	}
	return t.take(reports, a.Steps, all), nil
}

// take takes over steps, whose claims are in a list of assignments, and returns those of the list that are new.
func (t *talk) take(reports []link.Report, steps []exchange.Step, list []link.Assignment) []link.Assignment {
	inputs, taken := make([]link.StepInput, len(steps)), 0
	for i := range steps {
		s, a := &steps[i], list[i]
		c := link.Stop{StepKey: a.Step.StepKey, Claim: a.Step.Claims}
		_, reported := t.over[c]
		reported = reported || s.Redelivered && slices.ContainsFunc(reports, func(r link.Report) bool { return stopped(&r) == c })
		if _, held := t.held[c]; reported || held {
			continue // another answer had it
		}
		t.held[c] = holding{step: s.StepID}
		inputs[i] = s.StepInput(&t.like)
		t.like.Node, t.like.Work = inputs[i].Node, inputs[i].Work
		a.Step.Attempts, a.Isolation, a.Known = s.Attempt, workflow.Isolation(s.Isolation), &inputs[i]
		list[taken] = a
		taken++
	}
	return list[:taken]
}

// stopped returns the claim that a report ends.
func stopped(r *link.Report) link.Stop { return link.Stop{StepKey: r.Step, Claim: r.Claim} }

// hurry ends an exchange that waits, some time after a later one was answered: the server that
// has it ends it at once, but a proxy may have sent it to another.
func (t *talk) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.poll != nil {
		t.poll.overtaken()
	}
}
