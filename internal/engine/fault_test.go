package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/internal/store/storetest"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/worker"
)

// moody is a store whose reads also fail on purpose.
type moody struct {
	*storetest.Faulty
	mu   sync.Mutex
	dice *rand.Rand
}

// newMoody returns a store in which some transactions and reads fail.
func newMoody(s store.Store, seed uint64) *moody {
	return &moody{Faulty: storetest.NewFaulty(s, storetest.Chances(seed, 0.06, 0.05, 0.05)), dice: rand.New(rand.NewPCG(seed, 7))}
}

func (m *moody) fails() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dice.IntN(25) == 0 {
		return &pawl.Error{Kind: pawl.Unavailable, Message: "the read failed on purpose"}
	}
	return nil
}

func (m *moody) Job(ctx context.Context, key rowkey.Job) (*pawl.Job, error) {
	if err := m.fails(); err != nil {
		return nil, err
	}
	return m.Faulty.Job(ctx, key)
}

func (m *moody) Bodies(ctx context.Context, keys []pawl.StepKey) (map[pawl.StepKey]*pawl.Step, error) {
	if err := m.fails(); err != nil {
		return nil, err
	}
	return m.Faulty.Bodies(ctx, keys)
}

func (m *moody) Marked(ctx context.Context, job rowkey.Job) ([]*pawl.Step, error) {
	if err := m.fails(); err != nil {
		return nil, err
	}
	return m.Faulty.Marked(ctx, job)
}

// effects records the side effects of handlers, by step and claim.
type effects struct {
	mu   sync.Mutex
	done map[string]int
}

func (e *effects) add(step string, claim int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.done[fmt.Sprint(step, "#", claim)]++
}

func (e *effects) of(step string, claim int) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.done[fmt.Sprint(step, "#", claim)]
}

// TestRandomJobsOnAStoreThatFails: transactions fail before they commit, or their outcome
// is lost whether they committed or not; reads fail. Every job still ends correctly, and
// every effect happens once per fence.
func TestRandomJobsOnAStoreThatFails(t *testing.T) { // K5, T5, T10, J8
	onDatabases(t, func(t *testing.T, db *database) {
		s := seed(t)
		many := 100
		if raceDetector {
			many = 40
		}
		c := newCrowd(t, rand.New(rand.NewPCG(s, 1)), many)
		world := &effects{done: make(map[string]int)}
		work := func(ctx context.Context, task *worker.Task) worker.Result {
			world.add(task.StepID, task.Claim)
			return c.run(ctx, task)
		}
		observer := start(t, db.open(), setup{})
		c.processes = append(c.processes, observer)
		var stores []*moody
		for i := range 2 {
			stores = append(stores, newMoody(db.open(), s+uint64(i)))
			c.processes = append(c.processes, start(t, stores[i], setup{handlers: map[string]worker.Handler{"h0": work, "h1": work}, capacity: 10}))
		}
		for i, name := range sortedNames(c.jobs) {
			c.ids[name] = c.processes[1+i%2].insist(pawl.Submission{Definition: c.jobs[name].def.Canonical(), Inputs: json.RawMessage(`{"flag":true}`), RequestID: name, Actor: "test"})
		}
		c.finish()
		world.check(t, observer, c)
		jobs, err := observer.engine.Jobs(t.Context(), pawl.JobQuery{Limit: 1000})
		if err != nil || len(jobs) != len(c.jobs) {
			t.Errorf("%d jobs, %v; want %d, each submitted once", len(jobs), err, len(c.jobs))
		}
		for _, fault := range []storetest.Fault{storetest.Before, storetest.After, storetest.Unknown} {
			if stores[0].Count(fault)+stores[1].Count(fault) == 0 {
				t.Errorf("fault %d never happened", fault)
			}
		}
	})
}

// insist submits under one request id until the result is known.
func (p *process) insist(sub pawl.Submission) pawl.ID {
	p.t.Helper()
	for {
		answers, err := p.engine.Submit(p.t.Context(), sub)
		if err == nil {
			err = answers[0].Err
		}
		if err == nil {
			return answers[0].ID
		}
		if !link.Retryable(err) {
			p.t.Fatal(err)
		}
	}
}

// check compares the effects with what is stored.
func (e *effects) check(t *testing.T, p *process, c *crowd) {
	t.Helper()
	e.mu.Lock()
	for key, n := range e.done {
		if n != 1 {
			t.Errorf("%s took effect %d times; want once for each claim", key, n)
		}
	}
	e.mu.Unlock()
	for name, id := range c.ids {
		for _, s := range p.job(id).Steps {
			if s.Status == lifecycle.StepComplete && s.WorkerID != nil && e.of(s.ID, s.Claims) != 1 {
				t.Errorf("job %s, step %s is complete by claim %d, which took no effect", name, s.Key, s.Claims)
			}
		}
	}
}

// TestAnUnknownOutcomeIsSettled: one command, one lost outcome.
func TestAnUnknownOutcomeIsSettled(t *testing.T) { // K5
	for name, fault := range map[string]storetest.Fault{"committed": storetest.After, "not committed": storetest.Unknown} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onStores(t, func(t *testing.T, open func() store.Store) {
				s := open()
				p := startProcess(t, storetest.NewFaulty(s, storetest.Script(fault)), nil)
				id := p.submit(define(t, oneStep), "")
				if j := p.job(id); j.Status != lifecycle.JobPending {
					t.Errorf("the job is %s", j.Status)
				}
				if jobs, err := p.engine.Jobs(t.Context(), pawl.JobQuery{}); err != nil || len(jobs) != 1 {
					t.Errorf("%d jobs, %v; want the one", len(jobs), err)
				}
				verify(t, s)
			})
		})
	}
}

func TestAFailedCommitIsRetryable(t *testing.T) { // K5
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, storetest.NewFaulty(open(), storetest.Script(storetest.Before)), nil)
		def := define(t, oneStep)
		answers, err := p.engine.Submit(t.Context(), submissions(def, 3)...)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range answers {
			if !link.Retryable(a.Err) || !errors.Is(a.Err, storetest.ErrInjected) || pawl.KindOf(a.Err) != pawl.Unavailable {
				t.Errorf("a commit that failed: %v; want an error that may be tried again", a.Err)
			}
		}
		if jobs, err := p.engine.Jobs(t.Context(), pawl.JobQuery{}); err != nil || len(jobs) != 0 {
			t.Errorf("%d jobs, %v; want none", len(jobs), err)
		}
		p.submitMany(def, 3)
	})
}

func TestAClosedEngineRefuses(t *testing.T) {
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		p.engine.Close()
		p.engine.Close()
		if _, err := p.engine.Submit(t.Context(), submissions(define(t, oneStep), 1)...); pawl.KindOf(err) != pawl.Unavailable {
			t.Errorf("submitting to a closed engine: %v; want it unavailable", err)
		}
	})
}
