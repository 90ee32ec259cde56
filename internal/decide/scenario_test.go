package decide_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/internal/decide"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/workflow"
)

// TestDecideScenarios plays every file of testdata/decide. A file is comments
// that say what it shows, a workflow, "---", and commands, each with the rows of
// the trail that it brings (-update rewrites them). The commands are:
//
//	start | attend                         the engine looks at the job
//	prepare                                what the next attend does was read now
//	pause | resume                         nothing new is enqueued meanwhile
//	claim KEY...                           a worker takes steps
//	report KEY EVENT [JSON | DELAY] [blind] what became of one; blind: seen by an
//	                                       engine that has to be told of the job
//	lose KEY                               its worker died
//	wait DURATION                          time passes
//	fire KEY | fire job                    a deadline is applied, if it has passed
//	cancel [REASON]                        the job is cancelled
//	signal NAME JSON                       somebody tells the job of an event
//	approve KEY JSON | reject KEY [REASON] ann answers an approval
//	end KEY JSON | end KEY failed          the child job of a step ends
//	skip KEY | resolve KEY JSON | retry KEY  what operators do
//	show                                   how job and steps are
func TestDecideScenarios(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("testdata/decide/*.txt")
	if err != nil || len(paths) < 20 {
		t.Fatalf("found %d files: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txt"), func(t *testing.T) {
			t.Parallel()
			src, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, path, playScenario(t, string(src)))
		})
	}
}

// playScenario returns the file as it should be.
func playScenario(t *testing.T, src string) string {
	t.Helper()
	head, commands, ok := strings.Cut(src, "\n---\n")
	if !ok {
		t.Fatal("want a line --- between the workflow and the commands")
	}
	def, err := workflow.Parse("scenario", []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	s := &scenario{}
	s.trial = newTrial(def, s)
	var b strings.Builder
	b.WriteString(head + "\n---\n")
	for line := range strings.Lines(commands) {
		command, ok := strings.CutPrefix(strings.TrimSpace(line), "> ")
		if !ok {
			continue // a row of the trail, as it was
		}
		fmt.Fprintf(&b, "> %s\n%s", command, s.play(command))
	}
	if err := s.replay(); err != nil {
		t.Error(err)
	}
	return b.String()
}

// A scenario is a trial whose expressions are those of its workflow.
type scenario struct {
	*trial
	prepared *attendance
}

var _ judge = (*scenario)(nil)

func (s *scenario) scope(nodes []int) *workflow.Scope {
	scope := &workflow.Scope{Inputs: json.RawMessage("{}"), Outputs: make(map[int]json.RawMessage), Statuses: make(map[int]machine.State)}
	for _, n := range nodes {
		step := s.steps[pawl.MakeOrd(n, 0)]
		scope.Outputs[n], scope.Statuses[n] = step.Output, step.State
	}
	return scope
}

func (s *scenario) start(ord pawl.Ord) decide.StartAnswer {
	n := ord.Node()
	answer := decide.StartAnswer{If: true}
	var err error
	if s.def.Node(n).HasIf && ord.Instance() == 0 {
		answer.If, err = s.def.EvalIf(n, s.scope(s.def.IfNeeds(n)))
	}
	if err == nil && answer.If && s.def.Node(n).HasForeach && ord.Instance() == 0 {
		var items []json.RawMessage
		items, err = s.def.EvalForeach(n, s.scope(s.def.ForeachNeeds(n)))
		answer.Count = len(items)
	}
	if err == nil && answer.If && s.waits(s.steps[ord]) {
		answer.Waiting, err = s.def.EvalWait(n, s.instance(ord))
	}
	if err != nil {
		return decide.StartAnswer{Failure: &pawl.Failure{Class: "expression", Message: "it does not evaluate", Permanent: true}}
	}
	return answer
}

// instance is the scope of what a step waits for, or an instance of it.
func (s *scenario) instance(ord pawl.Ord) *workflow.Scope {
	n, i := ord.Node(), ord.Instance()
	scope := s.scope(append(s.def.WaitNeeds(n), s.def.ForeachNeeds(n)...))
	if i == 0 {
		return scope
	}
	scope.Index = i - 1
	if s.def.Node(n).HasForeach {
		if items, err := s.def.EvalForeach(n, scope); err == nil {
			scope.Item = items[i-1]
		}
	} else {
		scope.Item = s.def.MatrixItem(n, i)
	}
	return scope
}

func (s *scenario) gather(ord pawl.Ord) decide.GatherAnswer {
	var outputs []string
	for _, o := range s.ords {
		if o.Parent() == ord && o != ord {
			outputs = append(outputs, string(s.steps[o].Output))
		}
	}
	return decide.GatherAnswer{Output: json.RawMessage("[" + strings.Join(outputs, ",") + "]")}
}

func (s *scenario) output() *decide.GatherAnswer {
	out, err := s.def.EvalOutput(s.scope(s.def.OutputNeeds()))
	if err != nil {
		return &decide.GatherAnswer{Failure: &pawl.Failure{Class: "expression", Message: "the output does not evaluate", Permanent: true}}
	}
	return &decide.GatherAnswer{Output: out}
}

// play returns the rows that a command brings.
func (s *scenario) play(command string) string {
	from := len(s.trail)
	words := strings.Fields(command)
	if words[0] == "show" {
		return s.show()
	}
	err := s.command(words[0], words[1:])
	var b strings.Builder
	for _, m := range s.trail[from:] {
		fmt.Fprintf(&b, "  %s%s\n", s.line(m), facts(m.note.Metadata))
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		fmt.Fprintf(&b, "  error: %s\n", err)
	}
	if b.Len() == 0 {
		return "  nothing\n"
	}
	return b.String()
}

// facts are the metadata of a row, but for the number of the claim.
func facts(metadata []byte) string {
	if len(metadata) == 0 {
		return ""
	}
	return " " + string(metadata)
}

func (s *scenario) command(verb string, args []string) error {
	switch verb {
	case "start":
		return s.trial.start()
	case "attend":
		return s.attendMarked()
	case "prepare":
		s.prepared = s.prepare()
		return nil
	case "pause", "resume":
		return s.pause(verb == "pause")
	case "cancel":
		return s.cancel(strings.Join(args, " "))
	case "wait":
		return s.wait(args)
	case "signal":
		return s.trial.signal(args[0], strings.Join(args[1:], " "))
	}
	if len(args) == 1 && verb == "fire" && args[0] == "job" {
		return s.fireJob()
	}
	ords, err := s.places(args, verb == "claim")
	if err != nil {
		return err
	}
	switch verb {
	case "claim":
		return s.claim(ords...)
	case "report":
		return s.reportOne(ords[0], args[1:])
	case "lose":
		return s.lose(ords[0])
	case "fire":
		return s.fireOne(ords[0])
	case "end":
		return s.endOne(ords[0], strings.Join(args[1:], " "))
	}
	return s.person(verb, ords[0], strings.Join(args[1:], " "))
}

// person plays what ann does to a step.
func (s *scenario) person(verb string, ord pawl.Ord, text string) error {
	note := decide.Note{Actor: "ann"}
	do, ok := map[string]func(*decide.Decision, *pawl.Step) error{
		"approve": func(d *decide.Decision, step *pawl.Step) error { return d.Approve(step, json.RawMessage(text), note) },
		"reject": func(d *decide.Decision, step *pawl.Step) error {
			note.Reason = text
			return d.Reject(step, note)
		},
		"skip":    func(d *decide.Decision, step *pawl.Step) error { return d.Skip(step, note) },
		"resolve": func(d *decide.Decision, step *pawl.Step) error { return d.Resolve(step, json.RawMessage(text), note) },
		"retry":   func(d *decide.Decision, step *pawl.Step) error { return d.Retry(step, note) },
	}[verb]
	if !ok {
		return fmt.Errorf("%q is not a command", verb)
	}
	return s.operate(ord, do)
}

// endOne ends the child job of a step: with its output, or failed.
func (s *scenario) endOne(ord pawl.Ord, output string) error {
	c := s.children[ord]
	switch {
	case c == nil:
		return fmt.Errorf("step %s has no child job", s.def.Key(ord))
	case output == "failed":
		s.endChild(ord, decide.ChildEnd{Failure: &pawl.Failure{Class: "child", Message: "the child job failed", Permanent: true}})
	default:
		s.endChild(ord, decide.ChildEnd{Output: json.RawMessage(output)})
	}
	return nil
}

// places returns the steps that the first argument, or all, name.
func (s *scenario) places(args []string, all bool) ([]pawl.Ord, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("want the key of a step")
	}
	if !all {
		args = args[:1]
	}
	var ords []pawl.Ord
	for _, key := range args {
		ord, err := s.def.OrdOf(key)
		if err != nil {
			return nil, err
		}
		if s.steps[ord] == nil {
			return nil, fmt.Errorf("there is no step %s", key)
		}
		ords = append(ords, ord)
	}
	return ords, nil
}

func (s *scenario) attendMarked() error {
	a := s.prepared
	if s.prepared = nil; a == nil {
		a = s.prepare()
	}
	if a == nil {
		return nil
	}
	return s.attend(a)
}

func (s *scenario) wait(args []string) error {
	d, err := time.ParseDuration(strings.Join(args, ""))
	s.now += d.Microseconds()
	return err
}

func (s *scenario) reportOne(ord pawl.Ord, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want an event")
	}
	if state := s.steps[ord].State; state != lifecycle.StepInProgress {
		return fmt.Errorf("too late: the step is %s", state)
	}
	o := outcome{ord: ord, Report: decide.Report{Event: machine.Event(args[0])}}
	switch o.Event {
	case lifecycle.StepSuccess:
		o.Output = json.RawMessage("null")
	case lifecycle.StepFail, lifecycle.StepFailPermanently:
		o.Failure = &pawl.Failure{Class: "exit", Message: "exit code 1", Permanent: o.Event == lifecycle.StepFailPermanently}
	}
	for _, arg := range args[1:] {
		switch delay, err := time.ParseDuration(arg); {
		case arg == "blind":
			o.blind = true
		case o.Event == lifecycle.StepSuccess:
			o.Output = json.RawMessage(arg)
		case err != nil:
			return err
		default:
			o.Failure.Delay = pawl.Duration(delay)
		}
	}
	return s.report(false, o)
}

func (s *scenario) fireOne(ord pawl.Ord) error {
	if at := s.steps[ord].DueAt; at == 0 || at > s.now {
		return nil
	}
	return s.fire(ord)
}

func (s *scenario) fireJob() error {
	if s.job.DueAt == 0 || s.job.DueAt > s.now || s.job.DueEvent != lifecycle.JobCancel {
		return nil
	}
	return s.timeOut()
}

// show returns how the job and its steps are.
func (s *scenario) show() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  job: %s", s.job.State)
	describeEnd(&b, s.job.Output, s.job.Error)
	fmt.Fprintf(&b, ", %d of %d slots taken\n", s.job.Active, s.job.WorkerCount)
	for _, ord := range s.ords {
		step := s.steps[ord]
		fmt.Fprintf(&b, "  %s: %s, %s, %s", s.def.Key(ord), step.State, count(step.Attempts, "attempt"), count(step.Claims, "claim"))
		if step.Mark != pawl.Clear {
			b.WriteString([]string{pawl.Attention: ", marked", pawl.Waiting: ", waits for a slot", pawl.Blocked: ", blocked"}[step.Mark])
		}
		if step.DueAt != 0 {
			fmt.Fprintf(&b, ", %s in %s", step.DueEvent, time.Duration(step.DueAt-s.now)*time.Microsecond)
		}
		if len(step.Input) > 0 {
			fmt.Fprintf(&b, ", waits %s", step.Input)
		}
		if c := s.children[ord]; c != nil && c.asked {
			b.WriteString(", its child is asked to stop")
		}
		describeEnd(&b, step.Output, step.Error)
		b.WriteString("\n")
	}
	return b.String()
}

func describeEnd(b *strings.Builder, output json.RawMessage, f *pawl.Failure) {
	if output != nil {
		fmt.Fprintf(b, ", output %s", output)
	}
	if f != nil {
		fmt.Fprintf(b, ", error %s: %s", f.Class, f.Text())
	}
	if f != nil && f.Step != "" {
		fmt.Fprintf(b, " (%s)", f.Step)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
