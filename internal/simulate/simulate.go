package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/internal/rehearsal"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// A Fault is something that goes wrong outside of the steps themselves.
type Fault string

// The faults.
const (
	Kill      Fault = "kill"      // workers die in the middle of a step
	Slow      Fault = "slow"      // workers are late, and steps run into their timeouts
	Duplicate Fault = "duplicate" // messages arrive twice
)

// Faults are all faults.
var Faults = []Fault{Kill, Slow, Duplicate}

// A Config says what to simulate.
type Config struct {
	Seed   uint64
	Faults []Fault        // default none
	Inputs map[string]any // required inputs that are not given are made up

	// Most is how many events a job may have; one with more is an error of kind Invalid. 0: a
	// job with more than 2,000,000 counts as broken.
	Most int
}

// A Result is the outcome of a simulated job.
type Result struct {
	Workflow string                `json:"workflow"`
	Seed     uint64                `json:"seed"`
	Inputs   json.RawMessage       `json:"inputs"`
	Status   machine.State         `json:"status"`
	Error    string                `json:"error,omitempty"`
	Output   json.RawMessage       `json:"output"`
	Took     pawl.Duration         `json:"took"`
	Steps    map[machine.State]int `json:"steps"` // instances and child jobs included
	Attempts int                   `json:"attempts"`
	Refused  int                   `json:"refused"`          // messages that came too late or twice
	Broken   string                `json:"broken,omitempty"` // the invariant that did not hold
	Timeline rehearsal.Timeline    `json:"timeline"`
}

// Probabilities of events. Those of a fault apply only if the fault is requested.
const (
	rateFail      = 0.10 // an attempt fails, and may be tried again
	rateFatal     = 0.02 // it fails for good
	rateTimeout   = 0.01
	rateSlow      = 0.25 // with Slow
	rateKill      = 0.20 // with Kill
	rateDuplicate = 0.25 // with Duplicate
	rateReject    = 0.10 // of approvals
	rateNever     = 0.15 // no decision or signal comes, for a wait that ends by itself
	rateEarly     = 0.25 // a signal comes before a step waits for it
	rateChild     = 0.15 // a child job of a registered workflow fails
)

// Limits of a simulation.
const (
	meanWork    = 8 * time.Second
	meanPerson  = 20 * time.Minute
	claimWithin = 500 * time.Millisecond
	notice      = 15 * time.Second // until a dead worker is noticed
	maxEvents   = 2_000_000
)

// A simulation runs one job and its child jobs.
type simulation struct {
	rng    *rand.Rand
	faults map[Fault]bool
	agenda agenda
	now    int64
	worlds []*rehearsal.World
	minds  map[*workflow.Definition]*expressions.Reading
	seen   map[*rehearsal.World]map[pawl.Ord]stage
	sent   map[*rehearsal.World]map[string]int
	result Result
	worker uint32
	most   int // events
}

// A stage is how far a step was when the simulation last saw it, so that what follows
// is arranged once.
type stage struct {
	state  machine.State
	claims int
	asked  bool // to stop
}

// Run runs a definition on a clock of its own, with outcomes that are made up from
// the seed. The same definition, inputs, faults and seed give the same result. The
// error is of kind Invalid if the inputs are wrong, and that of ctx as soon as ctx ends.
func Run(ctx context.Context, def *workflow.Definition, cfg Config) (*Result, error) {
	s := &simulation{most: cmp.Or(cfg.Most, maxEvents), rng: rand.New(rand.NewPCG(cfg.Seed, 0x7061776c)), faults: map[Fault]bool{}, now: rehearsal.Epoch,
		minds: map[*workflow.Definition]*expressions.Reading{}, seen: map[*rehearsal.World]map[pawl.Ord]stage{}, sent: map[*rehearsal.World]map[string]int{}}
	for _, f := range cfg.Faults {
		s.faults[f] = true
	}
	r, err := s.reading(def)
	if err != nil {
		return nil, err
	}
	sets, err := r.Inputs(cfg.Inputs, 1)
	if err != nil {
		return nil, err
	}
	s.result = Result{Workflow: def.Name, Seed: cfg.Seed, Inputs: sets[0], Steps: map[machine.State]int{}}
	w := s.open(def, sets[0], nil, 0)
	broken := s.run(ctx, w)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case cfg.Most > 0 && errors.Is(broken, errMost):
		return nil, pawl.Errorf(pawl.Invalid, "%s", broken)
	}
	s.conclude(w, broken)
	return &s.result, nil
}

func (s *simulation) reading(def *workflow.Definition) (*expressions.Reading, error) {
	if s.minds[def] == nil {
		r, err := expressions.Read(def)
		if err != nil {
			return nil, err
		}
		s.minds[def] = r
	}
	return s.minds[def], nil
}

// open makes a job, which starts a moment later.
func (s *simulation) open(def *workflow.Definition, inputs json.RawMessage, parent *rehearsal.World, at pawl.Ord) *rehearsal.World {
	w := rehearsal.New(def, inputs, s)
	w.Now, w.Jitter, w.SpawnChild = s.now, s.rng.Float64, s.spawn
	if parent != nil {
		w.Attach(parent, at)
	}
	s.worlds = append(s.worlds, w)
	s.seen[w], s.sent[w] = map[pawl.Ord]stage{}, map[string]int{}
	s.after(s.within(claimWithin), func() error {
		if w.Job().State != lifecycle.JobPending {
			return nil
		}
		s.early(w)
		return w.Start()
	})
	return w
}

func (s *simulation) after(d time.Duration, do func() error) {
	s.agenda.put(s.now+d.Microseconds(), do)
}

func (s *simulation) within(d time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(d))).Round(time.Millisecond)
}

// lasting returns a duration around a mean: mostly less, sometimes much more.
func (s *simulation) lasting(mean time.Duration) time.Duration {
	d := time.Duration(float64(mean) * math.Min(s.rng.ExpFloat64(), 8))
	return max(d, 50*time.Millisecond).Round(time.Millisecond)
}

func (s *simulation) chance(rate float64) bool { return s.rng.Float64() < rate }

// with is chance if the fault is requested, and false otherwise.
func (s *simulation) with(f Fault, rate float64) bool { return s.faults[f] && s.chance(rate) }

// run processes the agenda until the job has ended. It returns the invariant that did
// not hold.
func (s *simulation) run(ctx context.Context, root *rehearsal.World) error {
	for range s.most {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := s.arrange(); err != nil {
			return err
		}
		at, do := s.upcoming()
		if do == nil {
			if root.Ended() {
				return nil
			}
			return fmt.Errorf("job %s is %s, and nothing more can happen", root.Definition.Name, root.Job().State)
		}
		s.now = max(s.now, at)
		for _, w := range s.worlds {
			w.Now = s.now
		}
		if err := do(); err != nil {
			return err
		}
	}
	return fmt.Errorf("job %s %w %d events", root.Definition.Name, errMost, s.most)
}

var errMost = errors.New("has not ended after")

// upcoming returns what happens next: something on the agenda, or a deadline.
func (s *simulation) upcoming() (at int64, do func() error) {
	for _, w := range s.worlds {
		if w.Job().State == lifecycle.JobRunning && w.Job().DueAt > 0 && (do == nil || w.Job().DueAt < at) {
			at, do = w.Job().DueAt, w.TimeOut
		}
		for _, step := range w.All() {
			if step.DueAt > 0 && !lifecycle.Step.Ended(step.State) && (do == nil || step.DueAt < at) {
				at, do = step.DueAt, func() error { return w.Fire(step) }
			}
		}
	}
	if len(s.agenda.items) > 0 && (do == nil || s.agenda.items[0].at <= at) {
		i := s.agenda.next()
		return i.at, i.do
	}
	return at, do
}

// arrange finds what has changed in each job, collects new trail entries, and puts what
// follows on the agenda. Children come first, since their end matters to their parents.
func (s *simulation) arrange() error {
	for _, w := range slices.Backward(s.worlds) {
		s.result.Timeline = append(s.result.Timeline, w.Drain()...)
		if err := w.Check(); err != nil {
			return err
		}
		for _, step := range slices.Clone(w.All()) {
			now := stage{step.State, step.Claims, step.DueEvent == lifecycle.StepCancel}
			if was, ok := s.seen[w][step.Ord]; ok && was == now {
				continue
			}
			s.seen[w][step.Ord] = now
			s.arrangeStep(w, step)
		}
		if err := s.wake(w); err != nil {
			return err
		}
	}
	return nil
}

// wake informs the parent of a job that has ended.
func (s *simulation) wake(w *rehearsal.World) error {
	if w.ParentJob == nil || !w.Ended() {
		return nil
	}
	p := w.ParentJob.At(w.ParentStep)
	if w.ParentJob.ChildEnded(w.ParentStep) || p.State != lifecycle.StepInProgress {
		return nil
	}
	end := decide.ChildEnd{Output: decide.OrNull(w.Job().Output)}
	if w.Job().State != lifecycle.JobCompleted {
		end.Failure = rehearsal.Failure("child", "its child job is "+string(w.Job().State), true)
	}
	return s.endChild(w.ParentJob, w.ParentStep, end)
}

func (s *simulation) endChild(w *rehearsal.World, ord pawl.Ord, end decide.ChildEnd) error {
	step := w.At(ord)
	if step.State != lifecycle.StepInProgress {
		return nil
	}
	return w.EndChild(ord, end)
}

func (s *simulation) conclude(root *rehearsal.World, broken error) {
	r := &s.result
	r.Status, r.Output = root.Job().State, decide.OrNull(root.Job().Output)
	end := s.now
	if root.Ended() {
		end = root.Job().CompletedAt // reports may have come later
	}
	r.Took = pawl.Duration(time.Duration(end-rehearsal.Epoch) * time.Microsecond)
	if root.Job().Error != nil && root.Job().State != lifecycle.JobCompleted {
		r.Error = root.Job().Error.Message
	}
	if broken != nil {
		r.Broken = broken.Error()
	}
	for _, w := range s.worlds {
		s.result.Timeline = append(s.result.Timeline, w.Drain()...)
		for _, step := range w.All() {
			r.Steps[step.State]++
			r.Attempts += step.Claims
		}
	}
}

// Text formats a result for people: the timeline, how the job ended, and how long it
// took.
func (r *Result) Text() string {
	var b strings.Builder
	b.WriteString(r.Timeline.String())
	fmt.Fprintf(&b, "\njob %s: %s after %s (seed %d)\n", r.Workflow, r.Status, time.Duration(r.Took), r.Seed)
	if r.Error != "" {
		fmt.Fprintf(&b, "error: %s\n", r.Error)
	}
	var counts []string
	for _, state := range lifecycle.Step.States {
		if n := r.Steps[state]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, state))
		}
	}
	fmt.Fprintf(&b, "steps: %s; %s", strings.Join(counts, ", "), counted(r.Attempts, "claim"))
	if r.Refused > 0 {
		fmt.Fprintf(&b, ", %s refused", counted(r.Refused, "message"))
	}
	fmt.Fprintf(&b, "\ninputs: %s\noutput: %s\n", r.Inputs, r.Output)
	if r.Broken != "" {
		fmt.Fprintf(&b, "broken: %s\n", r.Broken)
	}
	return b.String()
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
