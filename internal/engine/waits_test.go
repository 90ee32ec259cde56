package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/worker"
)

func (p *process) signal(id pawl.ID, name, data string) {
	p.t.Helper()
	must(p.t, errorOf(p.engine.Signal(p.t.Context(), id, name, json.RawMessage(data), ann)))
}

// TestSignalsAreTakenInOrder: one step takes each signal, the oldest signal first, and the
// step that has waited longest first.
func TestSignalsAreTakenInOrder(t *testing.T) { // T1, WORKFLOW.md: event
	onShared(t, func(t *testing.T, db *database) {
		p, other := start(t, db.open(), setup{}), start(t, db.open(), setup{})
		id := p.submit(define(t, `
name: signals
steps:
  - {id: nap, sleep: 50ms}
  - {id: second, needs: [nap], event: {name: e}}
  - {id: first, event: {name: e}}
  - {id: third, needs: [first, second], event: {name: e}}
output: "${{ [steps.first.output, steps.second.output, steps.third.output] }}"
`), "")
		p.waiting(id, "second")
		p.waiting(id, "first")
		for i := range 3 {
			[]*process{p, other}[i%2].signal(id, "e", fmt.Sprint(i+1))
		}
		if v := p.wait(id); string(v.Output) != `[1,2,3]` {
			t.Errorf("the steps took %s; want them in the order in which they began to wait", v.Output)
		}
		p.settled(id)
		verify(t, p.store)
	})
}

// TestASignalMeetsTwo: a signal that arrives as another step begins to wait for that name
// goes to the step that waited before.
func TestASignalMeetsTwo(t *testing.T) { // WORKFLOW.md: event
	onShared(t, func(t *testing.T, db *database) {
		p, other := start(t, db.open(), setup{}), start(t, db.open(), setup{})
		def := define(t, `
name: two
steps:
  - {id: nap, sleep: 3ms}
  - {id: late, needs: [nap], event: {name: e}}
  - {id: early, event: {name: e}}
output: "${{ [steps.early.output, steps.late.output] }}"
`)
		ids := make([]pawl.ID, 20)
		for i := range ids {
			ids[i] = p.submit(def, "")
			p.waiting(ids[i], "early")
			other.signal(ids[i], "e", "1")
			p.signal(ids[i], "e", "2")
		}
		for _, id := range ids {
			if v := p.wait(id); string(v.Output) != `[1,2]` {
				t.Errorf("the steps took %s; want the first signal to go to who waited before it came", v.Output)
			}
		}
		verify(t, p.store)
	})
}

// TestNoSignalIsLost that races with the beginning of the wait, on two engines.
func TestNoSignalIsLost(t *testing.T) { // T1
	onShared(t, func(t *testing.T, db *database) {
		procs := []*process{start(t, db.open(), setup{}), start(t, db.open(), setup{})}
		r := rand.New(rand.NewPCG(seed(t), 2))
		def := define(t, "name: race\nsteps: [{id: nap, sleep: 1ms}, {id: a, needs: [nap], event: {name: e}}, {id: b, event: {name: e}}]\noutput: \"${{ [steps.a.output, steps.b.output] }}\"\n")
		var all sync.WaitGroup
		for lane := range 6 {
			delays := make([]time.Duration, 25)
			for i := range delays {
				delays[i] = time.Duration(r.IntN(6_000)) * time.Microsecond
			}
			all.Go(func() {
				p, other := procs[lane%2], procs[(lane+1)%2]
				for _, delay := range delays {
					id := p.submit(def, "")
					for n := range 2 {
						until := time.NewTimer(delay) // a moment of its life, at random
						<-until.C
						if _, err := other.engine.Signal(t.Context(), id, "e", json.RawMessage(fmt.Sprint(n)), ann); err != nil {
							t.Errorf("signal: %v", err)
						}
					}
					v := p.wait(id)
					if out := string(v.Output); out != `[0,1]` && out != `[1,0]` {
						t.Errorf("the steps took %s", out)
					}
				}
			})
		}
		all.Wait()
		verify(t, procs[0].store)
	})
}

func TestSignalsThatAreRefused(t *testing.T) { // T1, K3
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{})
		def := define(t, "name: w\nsteps: [{id: a, event: {name: e}}]\n")
		id := p.submit(def, "")
		for _, c := range []struct {
			name, data string
			kind       pawl.Kind
			want       string
		}{
			{"other", "1", pawl.Invalid, "no step of workflow w waits for the event other"},
			{"No Name", "1", pawl.Invalid, `event "No Name": want the name of an event`},
			{"e", "{", pawl.Invalid, "data: want JSON"},
			{"e", "[1" + strings.Repeat("0", 400) + "]", pawl.Invalid, "data: number 1"},
			{"e", `"` + strings.Repeat("x", 1<<20) + `"`, pawl.Invalid, "data: 1048578 bytes"},
		} {
			if _, err := p.engine.Signal(t.Context(), id, c.name, json.RawMessage(c.data), ann); pawl.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want) {
				t.Errorf("signal %s: %v; want %s", c.name, err, c.want)
			}
		}
		p.signal(id, "e", "")
		p.wait(id)
		var refusal *machine.Refusal
		if _, err := p.engine.Signal(t.Context(), id, "e", nil, ann); !errors.As(err, &refusal) || refusal.Entity != id.Public(pawl.JobPrefix) {
			t.Errorf("a signal to a job that has ended: %v; want a refusal that names it", err)
		}
		if _, err := p.engine.Signal(t.Context(), p.engine.NewID(), "e", nil, ann); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("a signal to no job: %v", err)
		}
	})
}

// TestApproveAndRejectRace: one wins, and the other and all later ones are refused.
func TestApproveAndRejectRace(t *testing.T) { // T1, K5
	onShared(t, func(t *testing.T, db *database) {
		p, other := start(t, db.open(), setup{}), start(t, db.open(), setup{})
		def := define(t, "name: race\nsteps: [{id: gate, approval: {prompt: \"Really?\"}}]\n")
		wins := map[machine.State]int{}
		for range 25 {
			id := p.submit(def, "")
			p.waiting(id, "gate")
			var approved, rejected error
			var both sync.WaitGroup
			both.Go(func() { _, approved = p.engine.Approve(t.Context(), id, "gate", nil, ann) })
			both.Go(func() { _, rejected = other.engine.Reject(t.Context(), id, "gate", ann) })
			both.Wait()
			v := p.wait(id)
			wins[v.Status]++
			lost, won := rejected, approved
			if v.Status == lifecycle.JobFailed {
				lost, won = approved, rejected
			}
			if won != nil || pawl.KindOf(lost) != pawl.Conflict {
				t.Errorf("the job is %s; approve: %v, reject: %v; want one of them, and a conflict", v.Status, approved, rejected)
			}
			if w := steps(v)["gate"].Wait; w.By != "ann" || w.Reason != "because" || w.Prompt != "Really?" {
				t.Errorf("it does not say who decided, and what: %+v", w)
			}
		}
		t.Log(wins)
		verify(t, p.store)
	})
}

// TestApproveAtTheLastMoment: the step is approved or expires, never both, and a late
// approval returns an error.
func TestApproveAtTheLastMoment(t *testing.T) { // T1, K8
	onShared(t, func(t *testing.T, db *database) {
		p, other := start(t, db.open(), setup{}), start(t, db.open(), setup{})
		def := define(t, "name: last\nsteps: [{id: gate, approval: {prompt: x, expires: 20ms}}]\n")
		ends := map[machine.State]int{}
		for range 25 {
			id := p.submit(def, "")
			s := p.waitingOrEnded(id, "gate")
			expiry := time.NewTimer(time.Until(s.Wait.Until.Time()))
			<-expiry.C
			_, err := other.engine.Approve(t.Context(), id, "gate", nil, ann)
			v := p.wait(id)
			ends[v.Status]++
			switch gate := steps(v)["gate"]; {
			case err == nil && v.Status == lifecycle.JobCompleted:
			case pawl.KindOf(err) == pawl.Conflict && err != nil && v.Status == lifecycle.JobFailed && gate.Error.Message == "it was neither approved nor rejected within 20ms":
			default:
				t.Errorf("approve: %v, and the job is %s by %v", err, v.Status, gate.Error)
			}
		}
		t.Log(ends)
		verify(t, p.store)
	})
}

// waitingOrEnded returns a step that has begun to wait.
func (p *process) waitingOrEnded(id pawl.ID, key string) (s pawl.StepView) {
	p.t.Helper()
	until(p.t, key+" waits", func() bool { s = steps(p.job(id))[key]; return s.Wait != nil })
	return s
}

func TestFormsAreChecked(t *testing.T) { // T1, WORKFLOW.md: approval
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{})
		id := p.submit(define(t, `
name: form
steps:
  - {id: gate, approval: {prompt: x, form: {note: {required: true, pattern: '^[a-z]+$'}, n: {type: integer}, size: {enum: [big, small]}}}}
  - {id: nap, sleep: 1h}
`), "")
		p.waiting(id, "gate")
		p.waiting(id, "nap")
		for _, c := range []struct {
			form  map[string]any
			wants []string
		}{
			{nil, []string{"note"}},
			{map[string]any{"note": "UP"}, []string{"note", `"UP"`}},
			{map[string]any{"note": "x", "n": "three"}, []string{"n", `"three"`}},
			{map[string]any{"note": "x", "size": "huge"}, []string{"size", `"huge"`, "big"}},
			{map[string]any{"note": "x", "nte": "y"}, []string{"nte"}},
		} {
			_, err := p.engine.Approve(t.Context(), id, "gate", c.form, ann)
			if pawl.KindOf(err) != pawl.Invalid || slices.ContainsFunc(c.wants, func(s string) bool { return !strings.Contains(err.Error(), s) }) {
				t.Errorf("form %v: %v; want it to name %s", c.form, err, c.wants)
			}
		}
		if _, err := p.engine.Approve(t.Context(), id, "nap", nil, ann); pawl.KindOf(err) != pawl.Conflict || !strings.Contains(err.Error(), "step nap is not an approval") {
			t.Errorf("approving a sleep: %v", err)
		}
		if _, err := p.engine.Approve(t.Context(), id, "nothing", nil, ann); pawl.KindOf(err) != pawl.NotFound {
			t.Errorf("approving no step: %v", err)
		}
		must(t, errorOf(p.engine.Approve(t.Context(), id, "gate", map[string]any{"note": "x", "n": json.Number("3")}, ann)))
		must(t, errorOf(p.engine.Cancel(t.Context(), id, note("enough"))))
		if v := p.wait(id); string(steps(v)["gate"].Output) != `{"n":3,"note":"x"}` {
			t.Errorf("the output is %s", steps(v)["gate"].Output)
		}
		verify(t, p.store)
	})
}

// TestAPauseHoldsWaitsBack: waits continue and end, nothing new begins, and all of it does
// when the job is resumed in another process.
func TestAPauseHoldsWaitsBack(t *testing.T) { // J2, T13
	onShared(t, func(t *testing.T, db *database) {
		p, other := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}}), start(t, db.open(), setup{})
		p.register(define(t, "name: leaf\nsteps: [{id: a, handler: h}]\n"))
		id := p.submit(define(t, `
name: paused
steps:
  - {id: told, event: {name: e}}
  - {id: nap, needs: [told], sleep: 1ms}
  - {id: sub, needs: [told], workflow: leaf}
  - {id: each, needs: [told], foreach: [1, 2, 3], event: {name: f}}
  - {id: work, needs: [told], handler: h}
output: ${{ steps.each.output }}
`), "")
		p.waiting(id, "told")
		must(t, errorOf(other.engine.PauseJob(t.Context(), id, ann)))
		if _, err := p.engine.PauseJob(t.Context(), id, ann); pawl.KindOf(err) != pawl.Conflict {
			t.Errorf("pausing twice: %v", err)
		}
		p.signal(id, "e", "1")
		p.see(id, "told", func(s *pawl.StepView) bool { return s.Status == lifecycle.StepComplete })
		for i := range 3 {
			p.signal(id, "f", fmt.Sprint(i))
		}
		until(t, "the signals are looked at", func() bool {
			j, err := p.store.Job(t.Context(), id.JobKey())
			return err == nil && j.Mark == pawl.Clear
		})
		v := p.job(id)
		for _, key := range []string{"nap", "sub", "work"} {
			if s := steps(v)[key]; s.Status != lifecycle.StepPending {
				t.Errorf("step %s is %s in a paused job", key, s.Status)
			}
		}
		if len(v.ChildJobs) != 0 || v.Status != lifecycle.JobRunning || !v.Paused {
			t.Errorf("the paused job is %s with children %v", v.Status, v.ChildJobs)
		}
		must(t, errorOf(other.engine.ResumeJob(t.Context(), id, ann)))
		if v := p.wait(id); v.Status != lifecycle.JobCompleted || string(v.Output) != `[0,1,2]` {
			t.Errorf("the resumed job is %s (%v), output %s", v.Status, v.Error, v.Output)
		}
		p.settledAll(id)
		verify(t, p.store)
	})
}

// TestManyWaits: more instances than a page holds wait at once, are paused meanwhile and
// resumed, receive their signals, wake up, and are cancelled.
func TestManyWaits(t *testing.T) { // T1, J2
	onShared(t, func(t *testing.T, db *database) {
		p := start(t, db.open(), setup{handlers: map[string]worker.Handler{"h": nop}})
		const n = 1100
		naps := p.submit(define(t, "name: naps\ninputs: {items: {type: array}}\nsteps: [{id: each, foreach: \"${{ inputs.items }}\", sleep: 1ms}, {id: last, needs: [each], handler: h}]\noutput: ${{ len(steps.each.output) }}\n"), items(n)) // last does not run while the job is paused
		events := p.submit(define(t, "name: events\ninputs: {items: {type: array}}\nsteps: [{id: each, foreach: \"${{ inputs.items }}\", event: {name: e}}]\noutput: ${{ steps.each.output }}\n"), items(130))
		asks := p.submit(define(t, "name: asks\ninputs: {items: {type: array}}\nsteps: [{id: each, foreach: \"${{ inputs.items }}\", approval: {prompt: \"${{ item }}\"}}]\n"), items(n))
		p.waiting(naps, "each")
		must(t, errorOf(p.engine.PauseJob(t.Context(), naps, ann)))
		for i := range 130 {
			for {
				_, err := p.engine.Signal(t.Context(), events, "e", json.RawMessage(fmt.Sprint(i)), ann)
				if pawl.KindOf(err) != pawl.Conflict || err == nil {
					must(t, err)
					break
				}
				p.waiting(events, "each") // that many were not taken yet
			}
		}
		v := p.wait(events)
		var order []int
		must(t, json.Unmarshal(v.Output, &order))
		slices.Sort(order)
		want := make([]int, 130)
		for i := range want {
			want[i] = i
		}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("the signals that were taken (-want +got):\n%s", diff)
		}
		must(t, errorOf(p.engine.ResumeJob(t.Context(), naps, ann)))
		if v := p.wait(naps); v.Status != lifecycle.JobCompleted || string(v.Output) != fmt.Sprint(n) {
			t.Errorf("the naps are %s (%v), output %s", v.Status, v.Error, v.Output)
		}
		p.waiting(asks, fmt.Sprintf("each[%d]", n-1))
		must(t, errorOf(p.engine.Approve(t.Context(), asks, fmt.Sprintf("each[%d]", n-1), nil, ann)))
		must(t, errorOf(p.engine.Reject(t.Context(), asks, "each[700]", ann)))
		v = p.wait(asks)
		if v.Status != lifecycle.JobFailed || v.Error.Step != "each[700]" || v.StepCounts[lifecycle.StepCancelled] != n-2 || v.StepCounts[lifecycle.StepComplete] != 1 {
			t.Errorf("the asks are %s (%+v), %v", v.Status, v.Error, v.StepCounts)
		}
		for _, id := range []pawl.ID{naps, events, asks} {
			p.settled(id)
		}
		verify(t, p.store)
	})
}

// TestOperatorsAtWork: resolve, skip, retry, pause, resume and signals at random
// while steps run on other engines: each works or is refused, and no job is stuck.
func TestOperatorsAtWork(t *testing.T) { // T13, K5
	onShared(t, func(t *testing.T, db *database) {
		r := rand.New(rand.NewPCG(seed(t), 3))
		handlers := map[string]worker.Handler{"h": nop, "fail": fails}
		procs := []*process{start(t, db.open(), setup{handlers: handlers, capacity: 3}), start(t, db.open(), setup{handlers: handlers, capacity: 3}), start(t, db.open(), setup{})}
		procs[0].register(define(t, "name: leaf\nsteps: [{id: a, handler: h}, {id: nap, sleep: 2ms}]\n"))
		def := func(onError string) string {
			return "name: busy\nworkers: 3\non_error: " + onError + `
steps:
  - {id: a, handler: h}
  - {id: b, handler: fail, retry: {max_attempts: 3, base: 400ms, jitter: none}}
  - {id: ask, approval: {prompt: x, expires: 2s}}
  - {id: told, event: {name: e, timeout: 2s}}
  - {id: each, needs: [a], foreach: [1, 2, 3, 4], handler: h}
  - {id: naps, needs: [a], matrix: {n: [1, 2]}, sleep: 3ms}
  - {id: sub, needs: [each], workflow: leaf}
  - {id: c, needs: [b, ask, told], if: true, handler: h}
  - {id: d, needs: [sub, naps], handler: h}
hooks: {failure: [{id: tell, handler: h}], always: [{id: tidy, handler: h}]}
`
		}
		keys := []string{"a", "b", "ask", "told", "each", "each[1]", "naps", "naps[2]", "sub", "c", "d", "tell", "tidy"}
		var ids []pawl.ID
		for i := range 24 {
			ids = append(ids, procs[i%3].submit(define(t, def([]string{"halt", "drain"}[i%2])), ""))
		}
		done := map[string]int{}
		for range 300 {
			p, id, key := procs[2], ids[r.IntN(len(ids))], keys[r.IntN(len(keys))]
			verb := []string{"resolve", "skip", "retry", "approve", "pause", "resume", "signal"}[r.IntN(7)]
			err := map[string]func() error{
				"resolve": func() error {
					return errorOf(p.engine.ResolveStep(t.Context(), id, key, json.RawMessage(`"by hand"`), ann))
				},
				"skip":    func() error { return errorOf(p.engine.SkipStep(t.Context(), id, key, ann)) },
				"retry":   func() error { return errorOf(p.engine.RetryStep(t.Context(), id, key, ann)) },
				"approve": func() error { return errorOf(p.engine.Approve(t.Context(), id, "ask", nil, ann)) },
				"pause":   func() error { return errorOf(p.engine.PauseJob(t.Context(), id, ann)) },
				"resume":  func() error { return errorOf(p.engine.ResumeJob(t.Context(), id, ann)) },
				"signal":  func() error { return errorOf(p.engine.Signal(t.Context(), id, "e", nil, ann)) },
			}[verb]()
			switch kind := pawl.KindOf(err); {
			case err == nil:
				done[verb]++
			case kind != pawl.Conflict && kind != pawl.NotFound:
				t.Errorf("%s %s: %v; want it done or refused", verb, key, err)
			}
		}
		ends := map[machine.State]int{}
		for _, id := range ids {
			if _, err := procs[2].engine.ResumeJob(t.Context(), id, ann); err != nil && pawl.KindOf(err) != pawl.Conflict {
				t.Error(err)
			}
			v := procs[0].wait(id)
			ends[v.Status]++
			if tidy := steps(v)["tidy"].Status; !lifecycle.Step.Ended(tidy) {
				t.Errorf("the hook is %s", tidy)
			}
			procs[0].settledAll(id)
		}
		t.Log(done, ends)
		verify(t, procs[0].store)
	})
}
