package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/console"
	"github.com/pawl-dev/pawl/lifecycle"
)

// maxShown is how many letters of a value a comparison shows.
const maxShown = 60

// shortened writes a value in one line, cut where it is long; "" for null.
func shortened(raw json.RawMessage) string {
	var b bytes.Buffer
	if len(raw) == 0 || string(raw) == "null" || json.Compact(&b, raw) != nil {
		return ""
	}
	text := b.String()
	if utf8.RuneCountInString(text) <= maxShown {
		return text
	}
	return string([]rune(text)[:maxShown-1]) + "…"
}

// showJobDiff writes a comparison for people.
func showJobDiff(w io.Writer, d *jobDiff, all bool) error {
	var b strings.Builder
	signs := [2]string{"-", "+"}
	for i := range d.Jobs {
		b.WriteString(strings.TrimRight(fmt.Sprintf("%s %s  %s  %s  %s, %s", signs[i], d.Jobs[i].ID, d.Jobs[i].Workflow, summaryOf(&d.Jobs[i]),
			amount(d.Jobs[i].Steps, "step"), amount(d.Jobs[i].Attempts, "attempt")), " ") + "\n")
	}
	if d.Definition != nil {
		fmt.Fprintf(&b, "\ndefinition\n- %s\n+ %s\n", d.Jobs[0].Definition, d.Jobs[1].Definition)
		for _, line := range d.Definition.Lines() {
			b.WriteString("  " + console.Printable(line) + "\n")
		}
	}
	for i := range d.Inputs {
		if i == 0 {
			b.WriteString("\ninputs\n")
		}
		writeValues(&b, d.Inputs[i].Name+": ", &d.Inputs[i].valueDiff)
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

func summaryOf(r *runSide) string {
	text := string(r.Status)
	if r.Took != nil {
		text += " in " + console.Length(time.Duration(*r.Took))
	}
	if r.Error != nil {
		text += " (" + console.Printable(r.Error.Text()) + ")"
	}
	return text
}

func writeValues(b *strings.Builder, name string, v *valueDiff) {
	for i, raw := range []json.RawMessage{v.Was, v.Is} {
		if text := shortened(raw); text != "" {
			fmt.Fprintf(b, "%s %s%s\n", []string{"-", "+"}[i], name, console.Printable(text))
		}
	}
}

func writeSteps(b *strings.Builder, d *jobDiff, all bool) {
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

func writeStep(b *strings.Builder, d *stepDiff) {
	for i, side := range []*stepSide{d.Was, d.Is} {
		if side == nil {
			continue
		}
		line := fmt.Sprintf("%s %s  %s", []string{"-", "+"}[i], d.Step, sideFacts(side))
		if len(d.Differing) == 0 {
			line = " " + line[1:]
		}
		b.WriteString(console.Printable(line) + "\n")
	}
}

func sideFacts(s *stepSide) string {
	facts := []string{string(s.Status)}
	if s.Attempts > 1 {
		facts = append(facts, amount(s.Attempts, "attempt"))
	}
	if s.Made != nil {
		facts = append(facts, amount(s.Made.Total, "instance"))
	}
	if s.Took != nil && lifecycle.Step.Ended(s.Status) {
		facts = append(facts, console.Length(time.Duration(*s.Took)))
	}
	if s.Error != "" {
		facts = append(facts, s.Error)
	}
	if s.Output != "" {
		facts = append(facts, s.Output)
	}
	return strings.Join(facts, "  ")
}
