package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/internal/link"
	"github.com/pawl-dev/pawl/internal/rowkey"
	"github.com/pawl-dev/pawl/internal/store"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A hand is a worker that the test operates itself.
type hand struct {
	p       *process
	worker  *pawl.Worker
	release func() // of its name
}

// hand registers a worker for the handlers, with its name held as a living worker's is.
func (p *process) hand(handlers ...string) *hand {
	p.t.Helper()
	w := pawl.Worker{Workspace: pawl.DefaultWorkspace, Name: "hand", Capacity: 1000}
	for _, h := range handlers {
		w.Routes = append(w.Routes, pawl.Route(w.Workspace, workflow.DefaultQueue, h, 0))
		w.Handlers = append(w.Handlers, workflow.DefaultQueue+"/"+h)
	}
	self, release, err := p.engine.Register(p.t.Context(), link.Registration{Worker: w, Actor: "test"})
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(release)
	return &hand{p, self, release}
}

// claim claims exactly n steps.
func (h *hand) claim(n int) []link.Assignment {
	h.p.t.Helper()
	got := h.exchange(n)
	if len(got) != n {
		h.p.t.Fatalf("claimed %d steps, want %d", len(got), n)
	}
	return got
}

func (h *hand) exchange(free int, reports ...link.Report) []link.Assignment {
	h.p.t.Helper()
	got, err := h.p.engine.Exchange(context.Background(), link.Exchange{Worker: h.worker, Reports: reports, Free: free})
	if err != nil {
		h.p.t.Fatal(err)
	}
	return got
}

// success returns a report that the assignment succeeded.
func success(a link.Assignment) link.Report {
	return link.Report{Step: a.Step.StepKey, Claim: a.Step.Claims, Actor: "hand",
		Report: decide.Report{Event: lifecycle.StepSuccess, Output: json.RawMessage("1")}}
}

const oneStep = "name: one\nsteps: [{id: a, handler: h}]\n"

// submitMany submits n jobs in one commit.
func (p *process) submitMany(def *workflow.Definition, n int) []pawl.ID {
	p.t.Helper()
	answers, err := p.engine.Submit(p.t.Context(), submissions(def, n)...)
	if err != nil {
		p.t.Fatal(err)
	}
	ids := make([]pawl.ID, n)
	for i, a := range answers {
		if ids[i] = a.ID; a.Err != nil {
			p.t.Fatal(a.Err)
		}
	}
	return ids
}

func submissions(def *workflow.Definition, n int) []pawl.Submission {
	subs := make([]pawl.Submission, n)
	for i := range subs {
		subs[i] = pawl.Submission{Definition: def.Canonical(), Actor: "test"}
	}
	return subs
}

func TestARefusedSubmissionHarmsNoOther(t *testing.T) { // K5, J8
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		def := define(t, oneStep)
		first := pawl.Submission{Definition: def.Canonical(), RequestID: "taken", Actor: "test"}
		if a, err := p.engine.Submit(t.Context(), first); err != nil || a[0].Err != nil {
			t.Fatal(a, err)
		}
		subs := submissions(def, 500)
		subs[123].RequestID, subs[123].Description = "taken", "another request"
		subs[124].RequestID = "new"
		answers, err := p.engine.Submit(t.Context(), subs...)
		if err != nil {
			t.Fatal(err)
		}
		seen := make(map[pawl.ID]bool)
		for i, a := range answers {
			if i == 123 {
				if pawl.KindOf(a.Err) != pawl.Invalid {
					t.Errorf("the request id of another request: %v; want it refused as invalid", a.Err)
				}
				continue
			}
			if a.Err != nil || seen[a.ID] {
				t.Fatalf("submission %d: %v, id %v; want a job of its own", i, a.Err, a.ID)
			}
			seen[a.ID] = true
			if _, err := p.store.Job(t.Context(), a.ID.JobKey()); err != nil {
				t.Fatalf("submission %d: %v", i, err)
			}
		}
		verify(t, p.store)
	})
}

func TestAStaleReportHarmsNoOther(t *testing.T) { // K5, T5
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		ids := p.submitMany(define(t, oneStep), 500)
		h := p.hand("h")
		assigned := h.claim(500)
		before, err := p.store.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		reports := make([]link.Report, len(assigned))
		for i, a := range assigned {
			reports[i] = success(a)
		}
		reports[77].Claim += 5
		h.exchange(0, reports...)
		late := pawl.ID{}
		for i, id := range ids {
			j := p.job(id)
			switch {
			case id.JobKey() == assigned[77].Step.Job:
				late = id
				if j.Status != lifecycle.JobRunning {
					t.Errorf("the job of the stale report is %s; want RUNNING", j.Status)
				}
			case j.Status != lifecycle.JobCompleted:
				t.Fatalf("job %d is %s; want COMPLETED", i, j.Status)
			}
		}
		if facts := p.refused(late); len(facts) != 1 || facts[0].Step != "a" || facts[0].Event != lifecycle.StepSuccess {
			t.Errorf("refused facts %+v; want the one stale report", facts)
		}
		after, err := p.store.Stats(t.Context())
		if err != nil || after.Commits-before.Commits > 3 {
			t.Errorf("%d commits, %v; want the 500 reports in one", after.Commits-before.Commits, err)
		}
		h.exchange(0, success(assigned[77]))
		if j := p.wait(late); j.Status != lifecycle.JobCompleted {
			t.Errorf("after the right report the job is %s", j.Status)
		}
		verify(t, p.store)
	})
}

const diamond = `
name: diamond
steps:
  - {id: a, handler: h}
  - {id: b, handler: h, needs: [a]}
  - {id: c, handler: h, needs: [a]}
  - {id: d, handler: h, needs: [b, c]}
`

func TestBothArmsOfADiamondInOneCommit(t *testing.T) { // K5, T2, T3
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		id := p.submit(define(t, diamond), "")
		h := p.hand("h")
		arms := h.exchange(10, success(h.claim(1)[0]))
		if len(arms) != 2 {
			t.Fatalf("%d arms came with the report; want 2", len(arms))
		}
		last := h.exchange(10, success(arms[0]), success(arms[1]))
		if len(last) != 1 || last[0].Step.Ord.Node() != 4 {
			t.Fatalf("after both arms came %+v; want d, once", last)
		}
		h.exchange(0, success(last[0]))
		if j := p.wait(id); j.Status != lifecycle.JobCompleted {
			t.Errorf("status %s", j.Status)
		}
		p.settled(id)
		verify(t, p.store)
	})
}

func TestTheSameReportTwiceInOneCommit(t *testing.T) { // T4, T5
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		id := p.submit(define(t, oneStep), "")
		h := p.hand("h")
		a := h.claim(1)[0]
		h.exchange(0, success(a), success(a))
		if j := p.wait(id); j.Status != lifecycle.JobCompleted {
			t.Errorf("status %s", j.Status)
		}
		if facts := p.refused(id); len(facts) != 1 {
			t.Errorf("%d refused facts; want the second report", len(facts))
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestTwoWorkersNeverGetTheSameStep: claims of many workers meet in one commit.
func TestTwoWorkersNeverGetTheSameStep(t *testing.T) { // T5, K5
	onStores(t, func(t *testing.T, open func() store.Store) {
		p, q := startProcess(t, open(), nil), startProcess(t, open(), nil)
		p.submitMany(define(t, oneStep), 60)
		var mu sync.Mutex
		owners := make(map[pawl.StepKey]int)
		var all sync.WaitGroup
		for i := range 8 {
			h := []*process{p, q}[i%2].hand("h")
			all.Go(func() {
				for misses := 0; misses < 3; {
					got, err := h.p.engine.Exchange(context.Background(), link.Exchange{Worker: h.worker, Free: 3})
					if err != nil {
						t.Error(err)
						return
					}
					if len(got) == 0 {
						misses++
					}
					mu.Lock()
					for _, a := range got {
						owners[a.Step.StepKey]++
					}
					mu.Unlock()
				}
			})
		}
		all.Wait()
		if len(owners) != 60 {
			t.Errorf("%d steps were claimed; want 60", len(owners))
		}
		for k, n := range owners {
			if n != 1 {
				t.Errorf("step %s was claimed %d times", k, n)
			}
		}
		verify(t, p.store)
	})
}

// TestAReportOfAJobThatIsGone: a row was deleted without the engine.
func TestAReportOfAJobThatIsGone(t *testing.T) { // K5
	onShared(t, func(t *testing.T, db *database) {
		p := startProcess(t, db.open(), nil)
		ids := p.submitMany(define(t, oneStep), 3)
		h := p.hand("h")
		assigned := h.claim(3)
		db.sql(fmt.Sprintf("delete from job where id = %d", assigned[0].Step.Job))
		db.sql(fmt.Sprintf("delete from step where job = %d", assigned[1].Step.Job))
		_, err := p.engine.Exchange(t.Context(), link.Exchange{Worker: h.worker, Reports: []link.Report{success(assigned[0]), success(assigned[1]), success(assigned[2])}})
		if pawl.KindOf(err) != pawl.NotFound || link.Retryable(err) {
			t.Errorf("reports of jobs that are gone: %v; want not found, and not to be tried again", err)
		}
		for _, id := range ids {
			if id.JobKey() == assigned[2].Step.Job {
				if j := p.wait(id); j.Status != lifecycle.JobCompleted {
					t.Errorf("the job that is there: %s; want COMPLETED", j.Status)
				}
			}
		}
		if _, err := p.engine.Cancel(t.Context(), ids[0], note("gone?")); err == nil {
			t.Error("canceling a job that is gone succeeded")
		}
		if err := p.engine.Terminate(t.Context(), h.worker.Key(), workerNote("bye")); err != nil {
			t.Errorf("terminating the worker that held steps of jobs that are gone: %v", err)
		}
	})
}

// TestARowThatDoesNotDecode must not stop the claims of others.
func TestARowThatDoesNotDecode(t *testing.T) { // K5
	onShared(t, func(t *testing.T, db *database) {
		p := startProcess(t, db.open(), nil)
		ids := p.submitMany(define(t, oneStep), 6)
		bytes := map[string]string{"sqlite": "x'00'", "postgres": "'\\x00'::bytea"}[db.kind]
		db.sql(fmt.Sprintf("update job set head = %s where id = %d", bytes, ids[0].JobKey()))
		db.sql(fmt.Sprintf("update step set head = %s where job = %d", bytes, ids[1].JobKey()))
		db.sql(fmt.Sprintf("update job set inputs = 'no json' where id = %d", ids[2].JobKey()))
		h := p.hand("h")
		taken := make(map[rowkey.Job]bool)
		for range 3 {
			got, err := p.engine.Exchange(t.Context(), link.Exchange{Worker: h.worker, Free: 6})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range got {
				taken[a.Step.Job] = true
			}
		}
		for _, id := range ids[3:] {
			if !taken[id.JobKey()] {
				t.Errorf("job %v was not claimed beside rows that do not decode", id)
			}
		}
	})
}

func TestAnExchangeOfNothing(t *testing.T) { // T3
	onStores(t, func(t *testing.T, open func() store.Store) {
		p := startProcess(t, open(), nil)
		h := p.hand("h")
		if got := h.exchange(0); got != nil {
			t.Errorf("an empty exchange answered %v", got)
		}
		if err := p.engine.Terminate(t.Context(), h.worker.Key(), workerNote("enough")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.engine.Exchange(t.Context(), link.Exchange{Worker: h.worker, Free: 1}); err != link.ErrWorkerEnded && pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("a claim of an ended worker: %v; want %v", err, link.ErrWorkerEnded)
		}
	})
}
