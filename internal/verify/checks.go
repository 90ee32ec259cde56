package verify

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/expressions"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// check checks the definition itself.
func (v *verification) check() {
	for n := 1; n <= len(v.Definition.Nodes); n++ {
		v.endless(n)
		v.times(n)
		v.width(n)
		v.unusedAxes(n)
		v.child(n)
	}
	v.wayThrough()
	v.sharedSignals()
	v.unusedInputs()
	for _, e := range v.Exprs {
		v.statusWords(e)
		v.outputFields(e)
	}
}

// endless reports steps that may wait for ever. A timeout of the job ends such a wait,
// too.
func (v *verification) endless(n int) {
	node := v.Definition.Node(n)
	if node.Expires > 0 || v.Definition.Timeout > 0 && node.Hook == workflow.NoHook {
		return
	}
	var f Finding
	switch node.Kind {
	case workflow.KindApproval:
		f = v.on(n, Warn, ruleEndless, "approval")
		f.Message = fmt.Sprintf("step %s waits for ever if it is neither approved nor rejected", node.ID)
		f.Hint = "set approval.expires, or a timeout of the job"
	case workflow.KindEvent:
		f = v.on(n, Warn, ruleEndless, "event")
		f.Message = fmt.Sprintf("step %s waits for ever if the signal %s does not come", node.ID, node.Event)
		f.Hint = "set event.timeout, or a timeout of the job"
	default:
		return
	}
	f.Why, f.Trace = "its job stays RUNNING, and no one is notified", v.explorer.endless[n]
	v.add(f)
}

// The rule of waits that do not end by themselves.
const ruleEndless = "waits-for-ever"

// times compares the durations of a step with the job's timeout.
func (v *verification) times(n int) {
	node, limit := v.Definition.Node(n), v.Definition.Timeout
	if limit == 0 || node.Hook != workflow.NoHook {
		return
	}
	late := func(severity Severity, key, what string, d time.Duration, why string) {
		f := v.on(n, severity, "job-timeout", key)
		f.Message = fmt.Sprintf("%s of step %s is %s, and the job's timeout is %s", what, node.ID, d, limit)
		f.Why, f.Hint = why, "give the job more time, or the step less"
		v.add(f)
	}
	if d := v.sleep(n); d >= limit {
		late(Err, "sleep", "the sleep", d, "the job is canceled before the step is over")
	}
	if node.Expires >= limit {
		key := map[workflow.Kind]string{workflow.KindApproval: "approval.expires", workflow.KindEvent: "event.timeout"}[node.Kind]
		late(Warn, key, "the wait", node.Expires, "the job is canceled first, so it never ends by itself")
	}
	if node.Timeout >= limit && !node.Kind.Waits() {
		late(Warn, "timeout", "the timeout", node.Timeout, "the job is canceled first, so it never passes")
	}
	if node.Retry.MaxAttempts > 1 && !node.Kind.Waits() {
		if d := v.backoff(node.Retry); d >= limit {
			late(Warn, "retry", "the longest wait for the retries", d, "the job is canceled before the last attempt")
		}
	}
}

// backoff returns how long the retries of a step wait together, at most.
func (v *verification) backoff(r workflow.Retry) time.Duration {
	const most = 10_000 // attempts that are added up
	sum := time.Duration(0)
	for attempt := 1; attempt < min(r.MaxAttempts, most); attempt++ {
		sum += r.Delay(attempt, 1)
	}
	return sum
}

// sleep returns how long a step sleeps, or 0 if that is not a constant.
func (v *verification) sleep(n int) time.Duration {
	d, err := time.ParseDuration(strings.TrimSpace(v.Steps[n].Sleep))
	if err != nil || v.Definition.Node(n).Kind != workflow.KindSleep {
		return 0
	}
	return d
}

// wayThrough adds up consecutive sleeps. Steps with a condition may be skipped, and do
// not count.
func (v *verification) wayThrough() {
	if v.Definition.Timeout == 0 {
		return
	}
	took := make([]time.Duration, len(v.Definition.Nodes)+1)
	for _, level := range v.Definition.Levels() {
		for _, n := range level {
			node, before := v.Definition.Node(n), time.Duration(0)
			for _, need := range node.Needs {
				before = max(before, took[need])
			}
			own := v.sleep(n)
			if node.HasIf || own >= v.Definition.Timeout {
				own = 0 // already reported
			}
			took[n] = before + own
			if took[n] < v.Definition.Timeout || before >= v.Definition.Timeout {
				continue
			}
			f := Finding{Severity: Err, Rule: "job-timeout", Key: "timeout", Step: node.ID}
			f.Message = fmt.Sprintf("the sleeps up to step %s take %s, and the job's timeout is %s", node.ID, took[n], v.Definition.Timeout)
			f.Why, f.Hint = "no job can end in time", "give the job more time"
			v.add(f)
		}
	}
}

// width compares the instances of a fan-out with the slots of the job.
func (v *verification) width(n int) {
	node := v.Definition.Node(n)
	if node.Parallel <= v.Definition.Workers || node.Kind.Waits() || v.written().Workers == 0 {
		return
	}
	f := v.on(n, Warn, "parallel", "parallel")
	f.Message = fmt.Sprintf("step %s allows %d instances at once, and the job %d steps", node.ID, node.Parallel, v.Definition.Workers)
	f.Why, f.Hint = "there are never more than the job's workers", "raise workers, or leave parallel out"
	v.add(f)
}

// written returns the file as it was written.
func (v *verification) written() *workflow.File { return &v.Reading.File }

// private reports whether the work of a step sees only what its expressions pass to it.
// Commands and handlers can read all inputs.
func (v *verification) private(n int) bool {
	node, s := v.Definition.Node(n), v.Steps[n]
	return node.Kind == workflow.KindHTTP || node.Kind == workflow.KindCrew || node.Kind == workflow.KindLoad || node.Kind.Waits() || node.Kind == workflow.KindRun && !strings.Contains(s.Run, "PAWL_INPUT") && !strings.Contains(s.Run, "./")
}

func (v *verification) unusedAxes(n int) {
	node := v.Definition.Node(n)
	if len(node.Matrix) == 0 || !v.private(n) {
		return
	}
	for _, axis := range node.Matrix {
		used := slices.ContainsFunc(v.Exprs, func(e *expressions.Expr) bool {
			return e.Node == n && (e.Names["matrix."+axis.Name] || e.Names["index"] || strings.Contains(e.Text, "matrix[") || strings.Contains(e.Text, "(matrix)"))
		})
		if used || len(axis.Values) < 2 {
			continue
		}
		f := v.on(n, Warn, "unused", "matrix."+axis.Name)
		f.Message = fmt.Sprintf("nothing in step %s depends on matrix.%s", node.ID, axis.Name)
		f.Why = fmt.Sprintf("the step does the same for each of its %d values", len(axis.Values))
		f.Hint = "use it, or take it out of the matrix"
		v.add(f)
	}
}

// unusedInputs reports inputs that nothing can read.
func (v *verification) unusedInputs() {
	for n := 1; n <= len(v.Definition.Nodes); n++ {
		if !v.private(n) {
			return
		}
	}
	for _, in := range v.Definition.Inputs {
		used := slices.ContainsFunc(v.Exprs, func(e *expressions.Expr) bool {
			return e.Names["inputs."+in.Name] || strings.Contains(e.Text, "inputs[") || strings.Contains(e.Text, "(inputs)")
		})
		if used {
			continue
		}
		f := Finding{Severity: Warn, Rule: "unused", Key: "inputs." + in.Name}
		f.Message = fmt.Sprintf("the input %s is never used", in.Name)
		f.Why, f.Hint = "users who set it expect an effect", "use it, or leave it out"
		v.add(f)
	}
}

// sharedSignals reports steps that may wait for the same signal at the same time.
func (v *verification) sharedSignals() {
	var waits []int
	before := map[int][]int{}
	for n := 1; n <= len(v.Definition.Nodes); n++ {
		if v.Definition.Node(n).Kind == workflow.KindEvent {
			waits, before[n] = append(waits, n), v.Definition.Ancestors(n)
		}
	}
	for i, a := range waits {
		for _, b := range waits[i+1:] {
			x, y := v.Definition.Node(a), v.Definition.Node(b)
			if x.Event != y.Event || slices.Contains(before[b], a) || slices.Contains(before[a], b) {
				continue
			}
			f := v.on(b, Warn, "shared-signal", "event.name")
			f.Message = fmt.Sprintf("steps %s and %s may wait for the signal %s at the same time", x.ID, y.ID, x.Event)
			f.Why, f.Hint = "only one step takes a signal: the other keeps waiting", "give the signals different names, or let one of the steps need the other"
			v.add(f)
		}
	}
}

// After a step has begun, those that it needs are complete, skipped or resolved;
// hooks see every state in which a step ends.
var beforeSteps = []machine.State{lifecycle.StepComplete, lifecycle.StepSkipped, lifecycle.StepResolvedManually}

// statusWords checks the words that a status is compared with.
func (v *verification) statusWords(e *expressions.Expr) {
	possible, where := beforeSteps, "when the step begins"
	switch {
	case e.Use == expressions.UseOutput:
		where = "when a job completes"
	case e.Node > 0 && v.Definition.Node(e.Node).Hook != workflow.NoHook:
		possible, where = lifecycle.Step.Ends, "when hooks run"
	}
	for _, ref := range e.Statuses {
		for _, word := range ref.Words {
			id, f := v.Definition.Node(ref.Node).ID, Finding{Key: e.Path}
			if e.Node > 0 {
				f.Step = v.Definition.Node(e.Node).ID
			}
			switch {
			case !lifecycle.Step.Has(machine.State(word)):
				f.Severity, f.Rule = Err, "no-such-status"
				f.Message = fmt.Sprintf("steps.%s.status is compared with %q, which is no status of a step", id, word)
				f.Why, f.Hint = "the status never has that value", "the statuses here are "+list(possible)
			case !slices.Contains(possible, machine.State(word)):
				f.Severity, f.Rule = Warn, "never-that-status"
				f.Message = fmt.Sprintf("steps.%s.status is compared with %q, which it never is %s", id, word, where)
				f.Why, f.Hint = "a step does not start after a failed one: only hooks see failures", "the statuses here are "+list(possible)
			default:
				continue
			}
			v.add(f)
		}
	}
}

func list(states []machine.State) string {
	words := make([]string, len(states))
	for i, s := range states {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}
