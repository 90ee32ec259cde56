package console

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/internal/inspect"
	"github.com/pawl-dev/pawl/lifecycle"
)

// JobDiff writes a comparison for people.
func JobDiff(w io.Writer, d *inspect.Diff, all bool) error {
	var b strings.Builder
	signs := [2]string{"-", "+"}
	for i := range d.Jobs {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%s %s  %s  %s  %s, %s", signs[i], d.Jobs[i].ID, d.Jobs[i].Workflow, summaryOf(&d.Jobs[i]),
			amount(d.Jobs[i].Steps, "step"), amount(d.Jobs[i].Attempts, "attempt")), " ") + "\n")
	}
	if d.Definition != nil {
		fmt.Fprintf(&b, "\ndefinition\n- %s\n+ %s\n", d.Jobs[0].Definition, d.Jobs[1].Definition)
		for _, line := range d.Definition.Lines() {
			b.WriteString("  " + Printable(line) + "\n")
		}
	}
	for i := range d.Inputs {
		if i == 0 {
			b.WriteString("\ninputs\n")
		}
		writeValues(&b, d.Inputs[i].Name+": ", &d.Inputs[i].ValueDiff)
	}
	writeSteps(&b, d, all)
	if d.Output != nil {
		b.WriteString("\noutput\n")
		writeValues(&b, "", d.Output)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func amount(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func summaryOf(r *inspect.RunSide) string {
	text := string(r.Status)
	if r.Took != nil {
		text += " in " + Duration(time.Duration(*r.Took))
	}
	if r.Error != nil {
		text += " (" + Printable(r.Error.Text()) + ")"
	}
	return text
}

func writeValues(b *strings.Builder, name string, v *inspect.ValueDiff) {
	for i, raw := range []json.RawMessage{v.Was, v.Is} {
		if text := inspect.Shortened(raw); text != "" {
			fmt.Fprintf(b, "%s %s%s\n", []string{"-", "+"}[i], name, Printable(text))
		}
	}
}

func writeSteps(b *strings.Builder, d *inspect.Diff, all bool) {
	head, alike := "\nsteps\n", 0
	for i := range d.Steps {
		s := &d.Steps[i]
		if len(s.Differing) == 0 && !all {
			alike++
			continue
		}
		b.WriteString(head)
		head = ""
		writeStep(b, s)
	}
	if alike > 0 {
		fmt.Fprintf(b, "\n%s alike\n", amount(alike, "step"))
	}
}

func writeStep(b *strings.Builder, d *inspect.StepDiff) {
	for i, side := range []*inspect.StepSide{d.Was, d.Is} {
		if side == nil {
			continue
		}
		line := fmt.Sprintf("%s %s  %s", []string{"-", "+"}[i], d.Step, sideFacts(side))
		if len(d.Differing) == 0 {
			line = " " + line[1:]
		}
		b.WriteString(Printable(line) + "\n")
	}
}

func sideFacts(s *inspect.StepSide) string {
	facts := []string{string(s.Status)}
	if s.Attempts > 1 {
		facts = append(facts, amount(s.Attempts, "attempt"))
	}
	if s.Made != nil {
		facts = append(facts, amount(s.Made.Total, "instance"))
	}
	if s.Took != nil && lifecycle.Step.Ended(s.Status) {
		facts = append(facts, Duration(time.Duration(*s.Took)))
	}
	if s.Error != "" {
		facts = append(facts, s.Error)
	}
	if s.Output != "" {
		facts = append(facts, s.Output)
	}
	return strings.Join(facts, "  ")
}
