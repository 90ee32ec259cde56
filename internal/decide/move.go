package decide

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/workflow"
)

// A Move takes a job to another version of its workflow.
type Move struct {
	*workflow.Passage        // from the definition that the job has
	From              int    // the version that it has, or 0
	Version           int    // of the registered workflow that it is to have
	Inputs            []byte // of the job, as JSON; the new version binds them
}

// Obstacles are the reasons why a job cannot move, each with the step that it concerns.
type Obstacles []string

func (o Obstacles) Error() string { return strings.Join(o, "; ") }

// MoveTo moves an unfinished job to another version of its workflow. Steps that have
// begun have to be the same in both versions; the others become those of the new one.
// It returns the inputs as the new version binds them. From here on the decision uses
// the new definition, to which the caller pins the job. The error is a refusal of the
// table, or of kind Conflict with Obstacles.
func (d *Decision) MoveTo(m *Move, note Note) (inputs json.RawMessage, err error) {
	if err := d.allows(lifecycle.JobMove); err != nil {
		return nil, err
	}
	inputs, why, err := d.obstacles(m)
	if err != nil {
		return nil, err
	}
	if len(why) > 0 {
		id := d.job().ID.Public(pawl.JobPrefix)
		return nil, &pawl.Error{Kind: pawl.Conflict, Message: fmt.Sprintf("job %s cannot move to version %d", id, m.Version), Err: why}
	}
	if note.Metadata, err = d.moveNote(m); err != nil {
		return nil, err
	}
	if err := d.JobTx.MoveJob(lifecycle.JobMove, note); err != nil {
		return nil, err
	}
	old, workers := len(d.Definition.Nodes), d.Definition.Workers
	d.Definition = m.To
	d.relimit(workers)
	for n := old + 1; n <= len(m.To.Nodes); n++ {
		d.JobTx.Make(pawl.MakeOrd(n, 0))
	}
	if err := d.leave(m); err != nil {
		return nil, err
	}
	waiting, err := d.recount()
	if err != nil {
		return nil, err
	}
	if err := d.proceed(waiting, m.Changed); err != nil {
		return nil, err
	}
	return inputs, d.finish()
}

// moveNote says from where the job moves, and where to.
func (d *Decision) moveNote(m *Move) ([]byte, error) {
	type pin struct {
		Hash    string `json:"hash"`
		Version int    `json:"version"`
	}
	return json.Marshal(struct {
		From pin `json:"from"`
		To   pin `json:"to"`
	}{pin{d.Definition.HashString(), m.From}, pin{m.To.HashString(), m.Version}})
}

// obstacles returns the inputs as the new version binds them, and all reasons why the
// job cannot move.
func (d *Decision) obstacles(m *Move) (inputs json.RawMessage, why Obstacles, err error) {
	j := d.job()
	if j.Ending != "" {
		why = append(why, "it is ending, as "+string(j.Ending))
	}
	if j.Quota != 0 && !m.To.AnyWorkers && m.To.Workers > j.WorkerCount {
		why = append(why, fmt.Sprintf("workers: it has taken %d slots of its quota, and would want %d", j.WorkerCount, m.To.Workers))
	}
	inputs, fault := m.To.BindJSON(m.Inputs)
	if fault != nil {
		why = append(why, "inputs: "+fault.Error())
	}
	left := make(map[int]bool)
	for _, n := range m.Gone {
		left[n] = true
	}
	for n := 1; n <= len(d.Definition.Nodes); n++ {
		s, err := d.nodeStep(n)
		if err != nil {
			return nil, nil, err
		}
		if fault := m.obstacle(s, d.Definition.Nodes[n-1].ID, left[n]); fault != "" {
			why = append(why, fault)
		}
	}
	for _, id := range m.Returning {
		why = append(why, fmt.Sprintf("step %s was skipped when the job left it behind, and the new version has it again", id))
	}
	return inputs, why, nil
}

// obstacle returns why a step is in the way, or "". One that was skipped has done
// nothing and may be left behind.
func (m *Move) obstacle(s *pawl.Step, id string, gone bool) string {
	switch {
	case !begun(s), gone && s.State == lifecycle.StepSkipped && s.Mark == pawl.Clear:
		return ""
	case gone:
		return fmt.Sprintf("step %s has begun (it is %s), and the new version does not have it", id, s.State)
	case m.Changed[id]:
		return fmt.Sprintf("step %s has begun (it is %s), and is another one in the new version: %s", id, s.State, m.keysOf(id))
	case m.Wanted[id] && (s.State == lifecycle.StepInProgress || s.State == lifecycle.StepComplete):
		return fmt.Sprintf("step %s has begun (it is %s), and does not keep its output, which the new version uses", id, s.State)
	}
	return ""
}

func (m *Move) keysOf(id string) string {
	for _, c := range m.Diff.Steps {
		if c.Step == id {
			return strings.Join(c.Keys, ", ")
		}
	}
	return ""
}

// begun reports whether anything was done about s, or was tried.
func begun(s *pawl.Step) bool {
	return s.State != lifecycle.StepPending || s.Claims > 0 || s.Attempts > 0 || s.Losses > 0 || s.Made > 0
}

// relimit takes the limits of the whole job from the new version.
func (d *Decision) relimit(was int) {
	j := d.job()
	given := j.Quota == 0 && j.WorkerCount != was // by its submission
	if !given && (j.Quota == 0 || !d.Definition.AnyWorkers) {
		j.WorkerCount = d.Definition.Workers
	}
	if j.State == lifecycle.JobRunning && j.Hooks == pawl.HooksNotYet && !d.timedOut() {
		j.DueAt, j.DueEvent = 0, ""
		if t := d.Definition.Timeout; t > 0 {
			j.DueAt, j.DueEvent = j.StartedAt+t.Microseconds(), lifecycle.JobCancel
		}
	}
	d.JobTx.SaveJob()
}

// leave skips the steps that are not in the new version. No remaining step needs them.
func (d *Decision) leave(m *Move) error {
	for _, n := range m.Gone {
		s, err := d.nodeStep(n)
		if err != nil {
			return err
		}
		s.Unmet, s.Skipped = 0, false
		d.JobTx.Save(s)
		if s.State != lifecycle.StepPending {
			continue
		}
		s.Mark, s.CompletedAt = pawl.Clear, d.Now
		if err := d.JobTx.Move(s, lifecycle.StepSkip, Note{Reason: fmt.Sprintf("not in version %d", m.Version)}); err != nil {
			return err
		}
		d.JobTx.Fold(s) // recount leaves it out
	}
	return nil
}

// recount recounts the job's open nodes and the unmet needs of its steps. It returns
// the steps that nothing has begun, ascending.
func (d *Decision) recount() (waiting []*pawl.Step, err error) {
	j := d.job()
	j.Open = 0
	for n := range d.Definition.Nodes {
		node := &d.Definition.Nodes[n]
		s, err := d.nodeStep(n + 1)
		if err != nil {
			return nil, err
		}
		if node.Hook != workflow.NoHook {
			s.Mark, s.Unmet, s.Skipped = pawl.Clear, 0, false // it may have been a step
			d.JobTx.Save(s)
			continue
		}
		if !lifecycle.Step.Ended(s.State) || s.Mark == pawl.Attention {
			j.Open++
		}
		if s.State != lifecycle.StepPending {
			continue
		}
		if s.Unmet, s.Skipped, err = d.needsOf(node); err != nil {
			return nil, err
		}
		d.JobTx.Save(s)
		if !begun(s) {
			waiting = append(waiting, s)
		}
	}
	d.JobTx.SaveJob()
	return waiting, nil
}

// needsOf returns how many needs of a node have not ended well, and whether one
// was skipped. What has an outcome that was not applied has not ended.
func (d *Decision) needsOf(n *workflow.Node) (unmet int, skipped bool, err error) {
	for _, need := range n.Needs {
		s, err := d.nodeStep(need)
		switch {
		case err != nil:
			return 0, false, err
		case s.Mark == pawl.Attention:
			unmet++
		case s.State == lifecycle.StepComplete || s.State == lifecycle.StepResolvedManually:
		case s.State == lifecycle.StepSkipped:
			skipped = true
		default:
			unmet++
		}
	}
	return unmet, skipped, nil
}

// proceed begins the steps that are ready and takes back those that no longer are. A
// step that was ready before, and is the same, keeps waiting for a slot or the
// evaluator.
func (d *Decision) proceed(steps []*pawl.Step, changed map[string]bool) error {
	var ready []*pawl.Step
	for _, s := range steps {
		same := s.Mark != pawl.Clear && s.Unmet == 0 && !changed[d.node(s.Ord).ID]
		if d.job().State != lifecycle.JobRunning || same {
			continue
		}
		s.Mark = pawl.Clear
		if s.Unmet == 0 {
			ready = append(ready, s)
		}
	}
	for _, s := range ready {
		if err := d.begin(s); err != nil {
			return err
		}
	}
	return nil
}
