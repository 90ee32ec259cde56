package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl"
)

// A Severity is how bad a finding is.
type Severity string

// The severities.
const (
	OK      Severity = "ok"
	Warning Severity = "warning" // something will go wrong, or is slower or less safe than it could be
	Problem Severity = "problem" // something is wrong now
)

// A Finding is the result of one check for one subject.
type Finding struct {
	Check     string   `json:"check"`
	Severity  Severity `json:"severity"`
	Subject   string   `json:"subject,omitempty"` // the table, session or process that it is about
	Measured  string   `json:"measured"`          // for people: lower case, no full stop
	Threshold string   `json:"threshold"`         // when it is a warning or a problem
	Cure      string   `json:"cure,omitempty"`    // what to do, unless it is ok
}

// A Unit is the unit of a measured value.
type Unit int

// The units.
const (
	Seconds Unit = iota + 1
	Percent
	Bytes
	Count
)

// A Check is one thing that "pawl doctor" checks.
type Check struct {
	Name    string
	Store   string // postgres or sqlite; empty: both
	What    string // what it checks
	Healthy string // the text of an OK finding

	// Thresholds of a measured value; with Low it is bad below them. A threshold of 0 is
	// none.
	Unit          Unit
	Warn, Problem float64
	Low           bool

	Rule  string // the thresholds in words, for a check without a measured value
	Means string // what follows from it
	Cure  string // what to do
}

// Threshold describes when the check is a warning and when a problem.
func (c *Check) Threshold() string {
	if c.Unit == 0 {
		return c.Rule
	}
	word := "from"
	if c.Low {
		word = "below"
	}
	var parts []string
	if c.Warn != 0 {
		parts = append(parts, fmt.Sprintf("warning %s %s", word, c.Unit.Format(c.Warn)))
	}
	if c.Problem != 0 {
		parts = append(parts, fmt.Sprintf("problem %s %s", word, c.Unit.Format(c.Problem)))
	}
	if c.Rule != "" {
		parts = append(parts, c.Rule)
	}
	return strings.Join(parts, ", ")
}

// Grade returns the severity of a measured value.
func (c *Check) Grade(v float64) Severity {
	reaches := func(limit float64) bool { return limit != 0 && (c.Low && v < limit || !c.Low && v >= limit) }
	switch {
	case reaches(c.Problem):
		return Problem
	case reaches(c.Warn):
		return Warning
	}
	return OK
}

// Format formats a measured value for people.
func (u Unit) Format(v float64) string {
	switch u {
	case Seconds:
		return span(time.Duration(v * float64(time.Second)))
	case Percent:
		return fmt.Sprintf("%.0f %%", v)
	case Bytes:
		return size(v)
	}
	return fmt.Sprintf("%.0f", v)
}

// span formats a duration with one unit.
func span(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return fmt.Sprintf("%d days", int(d.Hours()/24))
}

func size(v float64) string {
	for _, unit := range []string{"bytes", "KiB", "MiB"} {
		if v < 1024 {
			return fmt.Sprintf("%.0f %s", v, unit)
		}
		v /= 1024
	}
	return fmt.Sprintf("%.1f GiB", v)
}

// A Diagnosis collects findings.
type Diagnosis struct{ Findings []Finding }

// Say adds a finding of a check. It panics if the check is not in the catalogue.
func (r *Diagnosis) Say(check string, s Severity, subject, format string, args ...any) {
	c := lookUp(check)
	f := Finding{Check: check, Severity: s, Subject: subject, Measured: fmt.Sprintf(format, args...), Threshold: c.Threshold()}
	if s != OK {
		f.Cure = c.Cure
	}
	r.Findings = append(r.Findings, f)
}

// Grade adds a finding for a measured value, if it reaches a threshold.
func (r *Diagnosis) Grade(check string, v float64, subject, format string, args ...any) {
	if s := lookUp(check).Grade(v); s != OK {
		r.Say(check, s, subject, format, args...)
	}
}

// SeverityOf returns the severity of a measured value of a check.
func SeverityOf(check string, v float64) Severity { return lookUp(check).Grade(v) }

// Well adds an OK finding for each of the checks that has no finding.
func (r *Diagnosis) Well(checks ...string) {
	for _, name := range checks {
		if !r.has(name) {
			r.Say(name, OK, "", "%s", lookUp(name).Healthy)
		}
	}
}

// Unusable adds a finding that the database cannot be used, and why.
func (r *Diagnosis) Unusable(err error) {
	r.Say("database", Problem, "", "%s", oneLine(err))
	var known *pawl.Error
	if errors.As(err, &known) && known.Hint != "" {
		r.Advise(known.Hint)
	}
}

// Fail adds a finding that a check could not be made.
func (r *Diagnosis) Fail(check string, err error) {
	r.Say(check, Warning, "", "it could not be checked: %s", oneLine(err))
}

// oneLine joins the lines of an error, each once.
func oneLine(err error) string {
	var lines []string
	for line := range strings.Lines(err.Error()) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "; "), ":; ", ": ")
}

// Advise replaces the cure of the last finding with a more specific one.
func (r *Diagnosis) Advise(cure string) { r.Findings[len(r.Findings)-1].Cure = cure }

func (r *Diagnosis) has(check string) bool {
	for i := range r.Findings {
		if r.Findings[i].Check == check {
			return true
		}
	}
	return false
}

// Worst returns the worst severity of the findings.
func Worst(all []Finding) Severity {
	worst := OK
	for i := range all {
		if s := all[i].Severity; s == Problem || s == Warning && worst == OK {
			worst = s
		}
	}
	return worst
}

func lookUp(name string) *Check {
	for i := range Checks {
		if Checks[i].Name == name {
			return &Checks[i]
		}
	}
	panic("doctor: there is no check " + name)
}
