package console

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/pawl-dev/pawl/internal/control"
	"github.com/pawl-dev/pawl/lifecycle"
	"github.com/pawl-dev/pawl/machine"
)

// A ServiceTable draws services as a table: a sign, the id, the state and how long it has
// lasted, the process, and further facts.
type ServiceTable struct {
	Name     string // of the supervisor
	Services func() []control.Service
	Busy     func() bool // reports whether drawing is useless now; nil: never
}

// phaseSigns are the signs for the phases of a service.
var phaseSigns = map[machine.State]string{
	lifecycle.ServiceStopped: "·", lifecycle.ServiceTryingToStart: "▸", lifecycle.ServiceRunning: "✓",
	lifecycle.ServiceDegraded: "!", lifecycle.ServiceTryingToStop: "▸", lifecycle.ServiceFailed: "✗",
}

// phaseTints maps each phase of a service to the state of a job or step whose colour it has.
var phaseTints = map[machine.State]machine.State{
	lifecycle.ServiceStopped: lifecycle.StepPending, lifecycle.ServiceTryingToStart: lifecycle.JobRunning,
	lifecycle.ServiceRunning: lifecycle.JobCompleted, lifecycle.ServiceDegraded: lifecycle.JobCanceled,
	lifecycle.ServiceTryingToStop: lifecycle.JobRunning, lifecycle.ServiceFailed: lifecycle.JobFailed,
}

func (b *ServiceTable) Draw(f Frame) []string {
	if b.Busy != nil && b.Busy() {
		return nil
	}
	all := b.Services()
	up, wideID, wideState := 0, 0, 0
	for i := range all {
		wideID, wideState = max(wideID, utf8.RuneCountInString(all[i].ID)), max(wideState, len(all[i].State))
		if all[i].Phase == lifecycle.ServiceRunning {
			up++
		}
	}
	lines := []string{fmt.Sprintf("%s  %d of %d run", b.Name, up, len(all))}
	for i := range all {
		s := &all[i]
		state := f.state(fmt.Sprintf("%-*s", wideState, s.State), phaseTints[s.Phase])
		sign := phaseSigns[s.Phase]
		if s.State == control.Completed {
			sign = phaseSigns[lifecycle.ServiceRunning]
		}
		lines = append(lines, fmt.Sprintf("%s %-*s  %s  %s", f.state(sign, phaseTints[s.Phase]), wideID, s.ID, state, f.serviceFacts(s)))
	}
	lines = f.fold(lines)
	for i := range lines {
		lines[i] = f.cut(strings.TrimRight(lines[i], " "))
	}
	return lines
}

// serviceFacts returns the facts about a service besides its state.
func (f Frame) serviceFacts(s *control.Service) string {
	facts := []string{fmt.Sprintf("%7s", Duration(f.Now.Sub(s.Since)))}
	if s.PID != 0 {
		facts = append(facts, fmt.Sprintf("pid %d", s.PID))
	}
	if s.Starts > 1 {
		facts = append(facts, fmt.Sprintf("%d starts", s.Starts))
	}
	return strings.Join(append(facts, noteOf(s)), "  ")
}
