package console

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A Frame holds what a drawing of a job depends on besides the job.
type Frame struct {
	width  int // 0: lines are not cut
	height int // 0: all lines are drawn
	Now    time.Time
	Paint  bool   // with colours
	spin   int    // index of the spinner's picture
	Given  string // the global flags that printed commands need
	job    string // its id
	Zone   *time.Location
}

// A branch is a step with those of its instances that get a line.
type branch struct {
	pawl.StepView
	instances []pawl.StepView
}

// maxInstances is how many instances of a fan-out are drawn at most.
const maxInstances = 3

// branches groups the steps of a job: each node with those of its instances that run or have
// failed.
func branches(steps []pawl.StepView) []branch {
	var all []branch
	at := map[string]int{}
	for _, s := range steps {
		node, _, instance := strings.Cut(s.Key, "[")
		if i, ok := at[node]; instance && ok {
			if b := &all[i]; remarkable(&s) && len(b.instances) < maxInstances {
				b.instances = append(b.instances, s)
			}
			continue
		}
		at[node] = len(all)
		all = append(all, branch{StepView: s})
	}
	return all
}

func remarkable(s *pawl.StepView) bool {
	return s.Status == lifecycle.StepInProgress || s.Status == lifecycle.StepPermanentError || s.NotBefore != 0
}

// drawTree draws a job and its steps, one line each.
func drawTree(v *pawl.JobView, f Frame) []string {
	head := fmt.Sprintf("%s  %s  %s  %s", v.Workflow, v.ID, f.state(string(v.Status), v.Status), elapsed(v.StartedAt, v.CompletedAt, f.Now))
	if v.Paused && !lifecycle.Job.Ended(v.Status) {
		head += "  paused"
	}
	lines := []string{head}
	f.job = v.ID
	all := branches(v.Steps)
	for i := range all {
		lines = append(lines, f.branch(&all[i], i == len(all)-1)...)
	}
	lines = f.fold(lines)
	for i := range lines {
		lines[i] = f.cut(strings.TrimRight(lines[i], " "))
	}
	return lines
}

func (f Frame) branch(b *branch, last bool) []string {
	joint, bar := "├─ ", "│  "
	if last {
		joint, bar = "└─ ", "   "
	}
	lines := f.lines(&b.StepView, joint, bar)
	for i := range b.instances {
		inner, beside := "├─ ", "│  "
		if i == len(b.instances)-1 {
			inner, beside = "└─ ", "   "
		}
		lines = append(lines, f.lines(&b.instances[i], bar+inner, bar+beside)...)
	}
	return lines
}

// lines draws one step, and below it the command that would end its wait.
func (f Frame) lines(s *pawl.StepView, joint, bar string) []string {
	lines := []string{joint + f.step(s)}
	if command := Answer(s, f.job, f.Given); command != "" {
		lines = append(lines, bar+"  "+command)
	}
	return lines
}

// step draws one step: its sign, its key, and further facts.
func (f Frame) step(s *pawl.StepView) string {
	return strings.TrimRight(fmt.Sprintf("%s %s  %s", f.sign(s), s.Key, strings.Join(f.facts(s), "  ")), " ")
}

func (f Frame) facts(s *pawl.StepView) []string {
	var facts []string
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if n := s.Instances; n != nil {
		add("%d/%d", n.Made-n.Live, n.Total)
	}
	switch s.Status {
	case lifecycle.StepPending:
		if s.NotBefore != 0 {
			add("attempt %d at %s", s.Attempts+1, In(s.NotBefore.Time(), f.Zone).Format(time.TimeOnly))
		}
	case lifecycle.StepEnqueued:
		add("queued")
	case lifecycle.StepInProgress, lifecycle.StepComplete, lifecycle.StepRetryableError, lifecycle.StepPermanentError:
		if s.Attempts > 1 {
			add("attempt %d", s.Attempts)
		}
		add("%s", elapsed(s.StartedAt, s.CompletedAt, f.Now))
		if text := awaits(s, f.Zone); text != "" {
			add("%s", text)
		}
	default:
		add("%s", strings.ReplaceAll(string(s.Status), "_", " "))
	}
	if s.Error == nil {
		return facts
	}
	switch s.Status {
	case lifecycle.StepComplete, lifecycle.StepCancelled:
	case lifecycle.StepInProgress:
		add("after %s", Printable(s.Error.Message))
	default:
		add("%s", Printable(s.Error.Text()))
	}
	return facts
}

// signs are the signs for the states of a step.
var signs = map[machine.State]string{
	lifecycle.StepPending:          "·",
	lifecycle.StepEnqueued:         "·",
	lifecycle.StepInProgress:       "▸",
	lifecycle.StepComplete:         "✓",
	lifecycle.StepRetryableError:   "↻",
	lifecycle.StepPermanentError:   "✗",
	lifecycle.StepCancelled:        "⊘",
	lifecycle.StepSkipped:          "↷",
	lifecycle.StepResolvedManually: "✓",
}

const spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"

func (f Frame) sign(s *pawl.StepView) string {
	sign := signs[s.Status]
	switch {
	case s.Status == lifecycle.StepPending && s.NotBefore != 0:
		return f.state("↻", lifecycle.StepRetryableError)
	case s.Status == lifecycle.StepInProgress && f.height > 0:
		sign = string([]rune(spinner)[f.spin%utf8.RuneCountInString(spinner)])
	}
	return f.state(sign, s.Status)
}

// tints are the colours of states, as the terminal numbers them.
var tints = map[machine.State]int{
	lifecycle.JobRunning: 36, lifecycle.JobCompleted: 32, lifecycle.JobFailed: 31, lifecycle.JobCanceled: 33,
	lifecycle.StepPending: 90, lifecycle.StepEnqueued: 90, lifecycle.StepInProgress: 36, lifecycle.StepComplete: 32,
	lifecycle.StepRetryableError: 33, lifecycle.StepPermanentError: 31, lifecycle.StepCancelled: 33,
	lifecycle.StepSkipped: 90, lifecycle.StepResolvedManually: 32,
}

func (f Frame) state(text string, s machine.State) string {
	if tint := tints[s]; f.Paint && tint != 0 {
		return fmt.Sprintf("\x1b[%dm%s\x1b[0m", tint, text)
	}
	return text
}

// fold drops lines from the middle of a drawing that is taller than the terminal, those of
// ended steps first.
func (f Frame) fold(lines []string) []string {
	room := f.height - 2 // one line says what was dropped, and one is for the cursor
	if f.height == 0 || len(lines) <= room+1 || room < 1 {
		return lines
	}
	excess := len(lines) - room
	kept := []string{lines[0]}
	hidden := 0
	for _, l := range lines[1:] {
		if hidden < excess && (strings.Contains(l, "✓") || strings.Contains(l, "↷")) {
			hidden++
			continue
		}
		kept = append(kept, l)
	}
	if len(kept) > room {
		hidden += len(kept) - room
		kept = kept[:room]
	}
	return append(kept, fmt.Sprintf("   %d more", hidden))
}

// cut shortens a line to the width of the terminal. Colours take no width, and any open colour
// is closed.
func (f Frame) cut(line string) string {
	if f.width == 0 || utf8.RuneCountInString(line) <= f.width {
		return line
	}
	var b strings.Builder
	room, escape := f.width-1, false
	for _, r := range line {
		switch {
		case r == '\x1b':
			escape = true
		case escape:
			escape = r != 'm'
		case room == 0:
			if f.Paint {
				b.WriteString("\x1b[0m")
			}
			return b.String() + "…"
		default:
			room--
		}
		b.WriteRune(r)
	}
	return b.String()
}
